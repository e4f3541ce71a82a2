package main

import (
	"context"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/operators/internal/trainjob"
)

// trainJob is no controller of Kubeflow's, whose Trainer does not compile here: it is Berth's own expander of TrainJobs into JobSets,
// which jobset runs.
var trainJob = operator{
	name: "trainjob", needs: "jobset",
	own: []map[string]any{
		printed(definition(trainjob.Group, "v1alpha1", "TrainJob", "trainjobs"),
			column{name: "State", kind: "string", path: ".status.conditions[-1:].type"}, column{name: "Age", kind: "date", path: ".metadata.creationTimestamp"}),
		definition(trainjob.Group, "v1alpha1", "TrainingRuntime", "trainingruntimes"),
		clusterWide(definition(trainjob.Group, "v1alpha1", "ClusterTrainingRuntime", "clustertrainingruntimes")),
	},
	rules: []any{
		rule(trainjob.Group, "trainjobs", "get", "list", "watch"), rule(trainjob.Group, "trainjobs/status", "update", "patch"), rule(trainjob.Group, "trainjobs/finalizers", "update"),
		rule(trainjob.Group, "trainingruntimes", "get", "list", "watch"), rule(trainjob.Group, "clustertrainingruntimes", "get", "list", "watch"),
		rule("jobset.x-k8s.io", "jobsets", "get", "list", "watch", "create"), rule("", "events", "create", "patch"), rule("events.k8s.io", "events", "create", "patch"),
	},
	types: func(*runtime.Scheme) error { return nil },
	setup: func(_ context.Context, m ctrl.Manager) error {
		return ctrl.NewControllerManagedBy(m).Named("trainjob").For(trainingKind("TrainJob")).Owns(jobSetKind()).
			Complete(&trainJobs{m.GetClient(), m.GetEventRecorderFor("berth-trainjob")})
	},
}

func trainingKind(kind string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: trainjob.Group, Version: "v1alpha1", Kind: kind})
	return u
}

func jobSetKind() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: "jobset.x-k8s.io", Version: "v1alpha2", Kind: "JobSet"})
	return u
}

type trainJobs struct {
	client.Client
	events record.EventRecorder
}

// Reconcile makes the TrainJob's JobSet, once, and passes on how it ends.
func (r *trainJobs) Reconcile(ctx context.Context, at ctrl.Request) (ctrl.Result, error) {
	job, set := trainingKind("TrainJob"), jobSetKind()
	if err := r.Get(ctx, at.NamespacedName, job); err != nil || job.GetDeletionTimestamp() != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	err := r.Get(ctx, at.NamespacedName, set)
	if apierrors.IsNotFound(err) {
		return ctrl.Result{}, r.expand(ctx, job)
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	said := trainjob.Status(set)
	had, _, _ := unstructured.NestedSlice(job.Object, "status", "conditions")
	if len(said) == 0 || reflect.DeepEqual(said, had) {
		return ctrl.Result{}, nil
	}
	if err := unstructured.SetNestedSlice(job.Object, said, "status", "conditions"); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, client.IgnoreNotFound(r.Status().Update(ctx, job))
}

func (r *trainJobs) expand(ctx context.Context, job *unstructured.Unstructured) error {
	kind, name := trainjob.RuntimeOf(job)
	from := trainingKind(kind)
	key := client.ObjectKey{Name: name}
	if kind == "TrainingRuntime" {
		key.Namespace = job.GetNamespace()
	}
	if err := r.Get(ctx, key, from); apierrors.IsNotFound(err) {
		if from = trainjob.Builtin(name); from == nil {
			r.events.Event(job, corev1.EventTypeWarning, "NotExpanded", kind+" "+name+" does not exist")
			return err // it may come
		}
	} else if err != nil {
		return err
	}
	set, untold, err := trainjob.Expand(job, from)
	if err != nil { // it stays so until somebody edits one of them
		r.events.Event(job, corev1.EventTypeWarning, "NotExpanded", err.Error())
		return nil
	}
	if len(untold) > 0 {
		r.events.Event(job, corev1.EventTypeNormal, "NotHonoured", "Berth's expander does not act on "+strings.Join(untold, ", "))
	}
	if err := r.Create(ctx, set); !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}
