package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// The API server takes policies into use some time after they are created: it looks once a second, at all that there are
// then. So two policies tell of all, one that changes objects and one that refuses them, if they are created last.
const (
	probedMutating   = "berth-user"
	probedValidating = "berth-namespace-queues"
	probeEvery       = 50 * time.Millisecond
)

// probed says whether InForce asks about the policy, or the binding, at the path.
func probed(path string) bool {
	return strings.HasSuffix(path, "/"+probedMutating) || strings.HasSuffix(path, "/"+probedValidating)
}

// InForce returns once the API server enforces what Install applied, or ctx ends. It asks with requests that are not carried
// out, which need an administrator's rights.
func InForce(ctx context.Context, client rest.Interface) error {
	for {
		err := enforced(ctx, client)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("policy: not in force: %w", err)
		case <-time.After(probeEvery):
		}
	}
}

// enforced says what speaks against both policies being in force.
func enforced(ctx context.Context, client rest.Interface) error {
	job := `{"apiVersion":"batch/v1","kind":"Job","metadata":{"generateName":"berth-probe-"},"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"none","image":"none"}]}}}}`
	text, err := client.Post().AbsPath("/apis/batch/v1/namespaces", v1alpha1.SystemNamespace, "jobs").Param("dryRun", metav1.DryRunAll).
		SetHeader("Accept", runtime.ContentTypeJSON).SetHeader("Content-Type", runtime.ContentTypeJSON).Body([]byte(job)).Do(ctx).Raw()
	if err != nil {
		return err
	}
	var made metav1.PartialObjectMetadata
	if err := json.Unmarshal(text, &made); err != nil {
		return err
	}
	if made.Annotations[v1alpha1.KeyUser] == "" {
		return fmt.Errorf("%s leaves a Job without %s", probedMutating, v1alpha1.KeyUser)
	}
	patch := `{"metadata":{"annotations":{"` + v1alpha1.KeyQueues + `":"berth-probe"}}}`
	err = client.Patch(types.MergePatchType).AbsPath("/api/v1/namespaces", v1alpha1.SystemNamespace).Param("dryRun", metav1.DryRunAll).
		SetHeader("Accept", runtime.ContentTypeJSON).Body([]byte(patch)).Do(ctx).Error()
	switch {
	case apierrors.IsForbidden(err):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("%s lets others write %s", probedValidating, v1alpha1.KeyQueues)
}
