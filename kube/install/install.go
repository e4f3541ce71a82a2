// Package install gives a cluster that is there already what Berth's scheduler needs: its kind, its policies, its roles,
// its Deployment. It makes the objects (Objects), looks whether a cluster can take them (Preflight), applies them (Apply)
// and removes them (Remove). deploy/manifests and deploy/chart are rendered from the same objects by its test. It does
// not schedule, and it writes no object that people write: workloads and queues stay as they are. cli/install.go calls
// it, with administrator rights; embedded clusters are installed by kube/scheduler.
package install

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/kube/crd"
)

// manager is the name under which Berth owns the fields that it applies, the same as of what embedded clusters get.
const manager = "berth"

// Result is what became of an object.
type Result struct {
	Object Object
	Did    string // "applied", "unchanged", "removed", "absent", "kept", "skipped"
	Why    string // of what was skipped or kept
}

// Apply makes the cluster's objects what they should be, in order, by server-side apply: those that are there are never
// deleted and made again, so that tokens of a ServiceAccount stay valid. Kinds that the server does not have are skipped.
// With dry nothing is written, and the server says what it would have said. It stops at the first error.
func Apply(ctx context.Context, client rest.Interface, list []Object, dry bool, tell func(Result)) error {
	for _, o := range list {
		r, err := applyOne(ctx, client, o, dry)
		if err != nil {
			return err
		}
		tell(r)
	}
	return nil
}

func applyOne(ctx context.Context, client rest.Interface, o Object, dry bool) (Result, error) {
	before, err := version(ctx, client, o)
	if err != nil {
		return Result{}, err
	}
	if o.Once && before != "" {
		return Result{Object: o, Did: "kept", Why: "as it is in the cluster"}, nil
	}
	request := client.Patch(types.ApplyYAMLPatchType).AbsPath(o.Path).SetHeader("Accept", runtime.ContentTypeJSON).
		Param("fieldManager", manager).Param("force", "true").Body(o.Text)
	if dry {
		request = request.Param("dryRun", metav1.DryRunAll)
	}
	var after metav1.PartialObjectMetadata
	text, err := send(ctx, request)
	switch {
	case apierrors.IsNotFound(err) && o.Optional != "":
		return Result{Object: o, Did: "skipped", Why: o.Optional}, nil
	case err != nil:
		return Result{}, fmt.Errorf("apply %s: %w", o, err)
	}
	if err := json.Unmarshal(text, &after); err != nil {
		return Result{}, fmt.Errorf("apply %s: %w", o, err)
	}
	if o.Kind == "CustomResourceDefinition" && !dry {
		kind, err := crd.Read(o.Text)
		if err != nil {
			return Result{}, err
		}
		if err := kind.Served(ctx, client); err != nil {
			return Result{}, err
		}
	}
	if before != "" && before == after.ResourceVersion {
		return Result{Object: o, Did: "unchanged"}, nil
	}
	return Result{Object: o, Did: "applied"}, nil
}

// send returns what the server answered, or what it said was wrong: the error of Raw alone does not have its words.
func send(ctx context.Context, request *rest.Request) ([]byte, error) {
	answer := request.Do(ctx)
	if err := answer.Error(); err != nil {
		return nil, err
	}
	return answer.Raw()
}

// version is the resource version of the object, "" where it is not there.
func version(ctx context.Context, client rest.Interface, o Object) (string, error) {
	text, err := send(ctx, client.Get().AbsPath(o.Path).SetHeader("Accept", runtime.ContentTypeJSON))
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read %s: %w", o, err)
	}
	var is metav1.PartialObjectMetadata
	if err := json.Unmarshal(text, &is); err != nil {
		return "", fmt.Errorf("read %s: %w", o, err)
	}
	return is.ResourceVersion, nil
}

// Remove takes the objects away, the last first. What holds other people's work or Berth's memory of it stays: the kind
// BerthQueue with the queues, and the secret by which evictions under way are known again; with purge these go too.
// No pod but the scheduler's own is touched: bound pods run on, and pods that wait for Berth wait for the next one.
func Remove(ctx context.Context, client rest.Interface, list []Object, purge, dry bool, tell func(Result)) error {
	for i := len(list) - 1; i >= 0; i-- {
		o := list[i]
		if o.Lasting != "" && !purge {
			tell(Result{Object: o, Did: "kept", Why: o.Lasting})
			continue
		}
		request := client.Delete().AbsPath(o.Path).SetHeader("Accept", runtime.ContentTypeJSON).Param("propagationPolicy", string(metav1.DeletePropagationBackground))
		if dry {
			request = request.Param("dryRun", metav1.DryRunAll)
		}
		err := request.Do(ctx).Error()
		switch {
		case apierrors.IsNotFound(err):
			tell(Result{Object: o, Did: "absent"})
		case err != nil:
			return fmt.Errorf("remove %s: %w", o, err)
		default:
			tell(Result{Object: o, Did: "removed"})
		}
	}
	return nil
}

// Queues are the names of the cluster's queues, which a purge deletes with their kind; nil where there is no such kind.
func Queues(ctx context.Context, client rest.Interface) ([]string, error) {
	text, err := send(ctx, client.Get().AbsPath("/apis", v1alpha1.GroupVersion.String(), v1alpha1.QueuePlural).SetHeader("Accept", runtime.ContentTypeJSON))
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list queues: %w", err)
	}
	var list metav1.PartialObjectMetadataList
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("list queues: %w", err)
	}
	var out []string
	for i := range list.Items {
		out = append(out, list.Items[i].Name)
	}
	return out, nil
}
