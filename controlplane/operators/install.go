package operators

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/kube/crd"
)

// label marks what was installed for a child. Its value is the name of the operator.
const label = "operators.berth.dev/name"

// kinds are what may be installed, as paths. Nothing else is taken from the child: it is applied with the rights of an
// administrator.
var kinds = map[string]string{
	"CustomResourceDefinition":       "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
	"ClusterRole":                    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
	"ClusterRoleBinding":             "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
	"MutatingWebhookConfiguration":   "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
	"ValidatingWebhookConfiguration": "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
}

// Install gives the cluster what the child's controllers need, and takes back the rights and webhooks of those that are not asked
// for now. Kinds stay, and so do their objects.
func (s *Operators) Install(ctx context.Context, admin rest.Interface) error {
	text, err := s.manifests(ctx)
	if err != nil {
		return err
	}
	var objects []unstructured.Unstructured
	if err := json.Unmarshal(text, (*list)(&objects)); err != nil {
		return fmt.Errorf("read what %s has to be given: %w", Program, err)
	}
	if err := Remove(ctx, admin); err != nil {
		return err
	}
	for i := range objects {
		if err := apply(ctx, admin, &objects[i]); err != nil {
			return fmt.Errorf("install %s %s: %w", objects[i].GetKind(), objects[i].GetName(), err)
		}
	}
	return served(ctx, admin, objects)
}

// served waits until the API server answers for the kinds: a controller that starts sooner looks for its own again only after ten
// seconds.
func served(ctx context.Context, admin rest.Interface, objects []unstructured.Unstructured) error {
	for i := range objects {
		if objects[i].GetKind() != "CustomResourceDefinition" {
			continue
		}
		text, err := objects[i].MarshalJSON()
		if err != nil {
			return err
		}
		kind, err := crd.Read(text)
		if err != nil {
			return err
		}
		if err := kind.Served(ctx, admin); err != nil {
			return err
		}
	}
	return nil
}

// list reads objects that are not wrapped in a List.
type list []unstructured.Unstructured

func (l *list) UnmarshalJSON(text []byte) error {
	var trees []map[string]any
	if err := json.Unmarshal(text, &trees); err != nil {
		return err
	}
	for _, tree := range trees {
		*l = append(*l, unstructured.Unstructured{Object: tree})
	}
	return nil
}

// Remove takes back the webhooks and the rights of all operators: without a child nobody answers the webhooks, and the API
// server would refuse what they guard.
func Remove(ctx context.Context, admin rest.Interface) error {
	for _, kind := range []string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "ClusterRoleBinding", "ClusterRole"} {
		err := admin.Delete().AbsPath(kinds[kind]).SetHeader("Accept", runtime.ContentTypeJSON).Param("labelSelector", label).Do(ctx).Error()
		if err != nil {
			return fmt.Errorf("remove what operators had: %w", err)
		}
	}
	return nil
}

// apply creates the object, or makes the one that is there like it.
func apply(ctx context.Context, admin rest.Interface, o *unstructured.Unstructured) error {
	at, ok := kinds[o.GetKind()]
	if !ok || o.GetName() == "" || o.GetLabels()[label] == "" {
		return fmt.Errorf("%s is not asked for an object of this kind", Program)
	}
	text, err := o.MarshalJSON()
	if err != nil {
		return err
	}
	request := func(r *rest.Request, path string, body []byte) rest.Result {
		r = r.AbsPath(path).SetHeader("Accept", runtime.ContentTypeJSON)
		if body != nil {
			r = r.SetHeader("Content-Type", runtime.ContentTypeJSON).Body(body)
		}
		return r.Do(ctx)
	}
	if err := request(admin.Post(), at, text).Error(); !apierrors.IsAlreadyExists(err) {
		return err
	}
	raw, err := request(admin.Get(), path.Join(at, o.GetName()), nil).Raw()
	if err != nil {
		return err
	}
	var old unstructured.Unstructured
	if err := old.UnmarshalJSON(raw); err != nil {
		return err
	}
	o.SetResourceVersion(old.GetResourceVersion())
	if text, err = o.MarshalJSON(); err != nil {
		return err
	}
	return request(admin.Put(), path.Join(at, o.GetName()), text).Error()
}

// Ready returns when the child answers, and has read the cluster.
func (s *Operators) Ready(ctx context.Context) error {
	trust := x509.NewCertPool()
	trust.AppendCertsFromPEM(s.trust)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trust}}}
	defer client.CloseIdleConnections()
	url := "https://" + s.listener.Addr().String() + "/" + s.secret + "/ready"
	for tick := time.NewTicker(50 * time.Millisecond); ; {
		if ready(ctx, client, url) {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			tick.Stop()
			return context.Cause(ctx)
		}
	}
}

func ready(ctx context.Context, client *http.Client, url string) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	answer, err := client.Do(r)
	if err != nil {
		return false
	}
	answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}
