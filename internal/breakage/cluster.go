package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/controlplane/home"
)

const (
	clusterName = "breakage"
	// speed is that of simulated time: pulls, crash-loop back-off and probes are over in a moment.
	speed = "30"
)

//go:embed fleet.yaml
var fleet []byte

// cluster is one `berth up` that its cells share.
type cluster struct {
	name   string
	berth  string
	env    []string // for commands of the binary
	client dynamic.Interface
	kinds  []kind // that can be listed, sorted
}

// kind is a kind of object that the cluster serves.
type kind struct {
	schema.GroupVersionResource
	name       string
	namespaced bool
}

func startCluster(ctx context.Context, o options, name string) (*cluster, error) {
	o.dir = filepath.Join(o.dir, name) // with a kubeconfig of its own
	if err := os.MkdirAll(o.dir, 0o700); err != nil {
		return nil, err
	}
	file := filepath.Join(o.dir, "fleet.yaml")
	if err := os.WriteFile(file, fleet, 0o600); err != nil {
		return nil, err
	}
	bin := filepath.Join(o.dir, "bin")
	if err := os.MkdirAll(bin, 0o700); err != nil {
		return nil, err
	}
	if err := os.Symlink(o.berth, filepath.Join(bin, "berth")); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	root := filepath.Join(o.dir, "home")
	c := &cluster{name: name, berth: o.berth, env: append(os.Environ(), "BERTH_HOME="+root, "HOME="+o.dir, "KUBECONFIG=", "PATH="+bin+":"+os.Getenv("PATH"))}
	cmd := c.command(ctx, "up", "--detach", "--ephemeral", "--name", name, "--fleet", file, "--speed", speed)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("berth up: %w\n%s", err, out)
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", home.Named(root, name).Kubeconfig())
	if err != nil {
		return c, err
	}
	cfg.QPS, cfg.Timeout = -1, 20*time.Second
	if c.client, err = dynamic.NewForConfig(cfg); err != nil {
		return c, err
	}
	d, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return c, err
	}
	return c, c.discover(d)
}

// discover lists the kinds that can be listed and changed: every one the cluster serves, in its preferred version.
func (c *cluster) discover(d *discovery.DiscoveryClient) error {
	lists, err := d.ServerPreferredResources()
	if err != nil && len(lists) == 0 {
		return err
	}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return err
		}
		for _, r := range list.APIResources {
			if strings.Contains(r.Name, "/") || !slices.Contains(r.Verbs, "list") || !slices.Contains(r.Verbs, "update") {
				continue
			}
			c.kinds = append(c.kinds, kind{gv.WithResource(r.Name), r.Kind, r.Namespaced})
		}
	}
	slices.SortFunc(c.kinds, func(a, b kind) int { return strings.Compare(a.String(), b.String()) })
	return nil
}

func (c *cluster) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_ = c.command(ctx, "down", "--name", c.name).Run()
}

func (c *cluster) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.berth, args...)
	cmd.Env = c.env
	return cmd
}

// sh runs a command as a user would who pastes it.
func (c *cluster) sh(ctx context.Context, script string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-e", "-c", script)
	cmd.Env, cmd.WaitDelay = c.env, 5*time.Second // what the shell started may go on, and is not waited for
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// answer is what is read of `berth why -o json`.
type answer struct {
	State, Layer, Cause, Owner, Summary string
	Blockers                            []struct {
		Layer, Cause, Owner, Message string
		Binding                      bool
		Evidence                     []struct{ Object, Field, Value string }
	}
	Fixes []struct {
		Side, Edit, Command, Assumes, Outcome string
		Verified                              bool
	}
	Unseen []any
	raw    string
}

func (c *cluster) why(ctx context.Context, namespace, target string) (answer, error) {
	var a answer
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	cmd := c.command(ctx, "why", target, "-n", namespace, "--name", c.name, "-o", "json")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if uerr := json.Unmarshal(out.Bytes(), &a); uerr != nil {
		return a, fmt.Errorf("berth why %s -n %s: %w: %s%s", target, namespace, errors.Join(err, uerr), out.Bytes(), errs.Bytes())
	}
	a.raw = out.String()
	return a, nil
}

func (c *cluster) of(k kind, namespace string) dynamic.ResourceInterface {
	if k.namespaced {
		return c.client.Resource(k.GroupVersionResource).Namespace(namespace)
	}
	return c.client.Resource(k.GroupVersionResource)
}

func (c *cluster) kindOf(u *unstructured.Unstructured) (kind, error) {
	gvk := u.GroupVersionKind()
	for _, k := range c.kinds {
		if k.name == gvk.Kind && k.Group == gvk.Group {
			return k, nil
		}
	}
	return kind{}, fmt.Errorf("the cluster serves no %s of %s", gvk.Kind, gvk.Group)
}

// strict makes the API server reject fields that it does not know, as kubectl does.
const strict = metav1.FieldValidationStrict

func (c *cluster) create(ctx context.Context, k kind, o map[string]any) error {
	u := fresh(o)
	for tries := 5; ; tries-- { // a quota that is written by two at a time conflicts
		_, err := c.of(k, u.GetNamespace()).Create(ctx, u, metav1.CreateOptions{FieldValidation: strict})
		if !apierrors.IsConflict(err) || tries == 0 {
			return err
		}
	}
}

// fresh is the object without what the API server gave this instance of it.
func fresh(o map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: clone(o)}
	for _, f := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "ownerReferences", "deletionTimestamp", "deletionGracePeriodSeconds"} {
		unstructured.RemoveNestedField(u.Object, "metadata", f)
	}
	delete(u.Object, "status")
	switch u.GetKind() {
	case "Job":
		forget(u)
	case "Pod": // its scheduler and its kubelet choose again
		unstructured.RemoveNestedField(u.Object, "spec", "nodeName")
		unstructured.RemoveNestedField(u.Object, "metadata", "annotations", v1alpha1.KeyGPUs)
	}
	return u
}

// forget takes out of a Job what the API server derives from its identity: another instance gets its own.
func forget(u *unstructured.Unstructured) {
	if manual, _, _ := unstructured.NestedBool(u.Object, "spec", "manualSelector"); manual {
		return
	}
	unstructured.RemoveNestedField(u.Object, "spec", "selector")
	for _, label := range []string{"controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"} {
		unstructured.RemoveNestedField(u.Object, "spec", "template", "metadata", "labels", label)
	}
}

// drop deletes the object at once and waits until it is gone.
func (c *cluster) drop(ctx context.Context, k kind, namespace, name string) error {
	now, how := int64(0), metav1.DeletePropagationBackground
	err := c.of(k, namespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now, PropagationPolicy: &how})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return until(ctx, 20*time.Second, func() bool {
		_, err := c.of(k, namespace).Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

var errNever = errors.New("did not come about in time")

func until(ctx context.Context, within time.Duration, done func() bool) error {
	for end := time.Now().Add(within); ; time.Sleep(200 * time.Millisecond) {
		if done() {
			return nil
		}
		if time.Now().After(end) || ctx.Err() != nil {
			return errNever
		}
	}
}
