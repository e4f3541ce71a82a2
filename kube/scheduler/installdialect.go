package scheduler

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/kube/crd"
	"github.com/berth-dev/berth/kube/dialect"
)

// InstallDialect gives the cluster the dialect's kinds, and the objects that the project's users expect: those that are there stay as
// they are. It needs administrator rights.
func InstallDialect(ctx context.Context, admin *rest.Config, d dialect.Dialect) error {
	typed, err := kubernetes.NewForConfig(admin)
	if err != nil {
		return fmt.Errorf("scheduler: install dialect %s: %w", d.Name(), err)
	}
	client, err := newDynamicClient(admin)
	if err != nil {
		return err
	}
	what := d.Install()
	for _, text := range what.Definitions {
		kind, err := crd.Read([]byte(text))
		if err == nil {
			_, err = kind.Apply(ctx, typed.Discovery().RESTClient())
		}
		if err == nil {
			err = kind.Served(ctx, typed.Discovery().RESTClient())
		}
		if err != nil {
			return fmt.Errorf("scheduler: install dialect %s: %w", d.Name(), err)
		}
	}
	for _, text := range what.Objects {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
			return fmt.Errorf("scheduler: install dialect %s: %w", d.Name(), err)
		}
		_, err := client.Resource(resourceOf(d, o)).Create(ctx, o, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("scheduler: install dialect %s: %s %s: %w", d.Name(), o.GetKind(), o.GetName(), err)
		}
	}
	return nil
}

// jsonOnly is the same connection without protobuf, which objects of other projects do not have.
func jsonOnly(c *rest.Config) *rest.Config {
	c = rest.CopyConfig(c)
	c.ContentType, c.AcceptContentTypes = "application/json", "application/json"
	return c
}

// resourceOf is where the API server keeps the object, which is of a kind of the dialect's or of Kubernetes' own.
func resourceOf(d dialect.Dialect, o *unstructured.Unstructured) schema.GroupVersionResource {
	at := o.GroupVersionKind()
	for _, k := range d.Kinds() {
		if k.Kind == at.Kind && k.Group == at.Group {
			return at.GroupVersion().WithResource(k.Plural)
		}
	}
	plural, _ := meta.UnsafeGuessKindToResource(at)
	return plural
}
