package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/kube/answer"
	"github.com/berth-dev/berth/kube/inspect"
)

// askTimeout bounds how long a command waits for an answer, tries included.
const askTimeout = 15 * time.Second

// asker puts questions to a cluster's scheduler, through the cluster's API server; or to a bundle, which has the
// answers of its day.
type asker struct {
	client rest.Interface
	kept   *inspect.Bundle // nil: ask the client
}

func (c *connection) asker() (asker, error) {
	cfg, err := c.config()
	if err != nil {
		return asker{}, err
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return asker{}, err
	}
	return asker{client: client.Discovery().RESTClient()}, nil
}

// get reads the answer at the path below the group's version into value.
func (a asker) get(ctx context.Context, value any, params url.Values, path ...string) error {
	if a.kept != nil {
		return answered(a.kept, value, params, path)
	}
	body, err := a.ask(ctx, params, path...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, value); err != nil {
		return fmt.Errorf("read the scheduler's answer: %w", err)
	}
	return nil
}

// ask returns the answer as it came.
func (a asker) ask(ctx context.Context, params url.Values, path ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	r := a.client.Get().AbsPath(append([]string{"/apis", answer.Group, answer.Version}, path...)...)
	for key, values := range params {
		for _, v := range values {
			r = r.Param(key, v)
		}
	}
	result := r.Do(ctx)
	if err := result.Error(); err != nil {
		return nil, explainSilence(err)
	}
	return result.Raw()
}

// silence is a scheduler that gives no answers, with what to do about it.
type silence string

func (s silence) Error() string { return string(s) }

// explainSilence words why there is no answer, with what to do about it. What was not found, and what the caller may
// not read, stays as it is for the caller to look at.
func explainSilence(err error) error {
	status, ok := err.(apierrors.APIStatus) // not wrapped by the client
	switch {
	case ok && apierrors.IsNotFound(err) && (status.Status().Details == nil || status.Status().Details.Group != answer.Group):
		return silence("this cluster has no answers to give: " + answer.APIServiceName + " is not installed; `berth up` starts a cluster that has")
	case apierrors.IsServiceUnavailable(err), apierrors.IsTimeout(err), apierrors.IsServerTimeout(err):
		return silence(fmt.Sprintf("the scheduler does not answer now (%s): try again, or see `kubectl get apiservice %s`", strings.TrimSpace(err.Error()), answer.APIServiceName))
	}
	return err
}

// namespace is the current one of the chosen cluster.
func (c *connection) namespace() string {
	got, err := c.choose()
	if err != nil {
		return "default"
	}
	return got.namespace
}

// printData writes the value as JSON or YAML; ok is false for other formats.
func printData(w io.Writer, value any, output string) (ok bool, err error) {
	switch output {
	case "json":
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false) // commands are there to be copied
		return true, enc.Encode(value)
	case "yaml":
		b, err := yaml.Marshal(value)
		if err == nil {
			_, err = w.Write(b)
		}
		return true, err
	}
	return false, nil
}

// width is how many columns a person looking at w has; 0 where nobody looks.
func width(w io.Writer) int {
	f, ok := raw(w).(*os.File)
	if !ok || !isTerminal(w) {
		return 0
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}
