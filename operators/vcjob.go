package main

import (
	"context"
	"crypto/ed25519"
	"encoding/pem"
	"reflect"
	"strings"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/berth-dev/berth/operators/internal/vcjob"
)

// volcanoJob is no controller of Volcano's, whose modules do not compile here: it is Berth's own expander of its Jobs. Queues and
// PodGroups, and whoever reads them, come with --dialect volcano.
var volcanoJob = operator{
	name: "vcjob", secrets: true,
	checked: []hook{{group: "batch.volcano.sh", version: "v1alpha1", kind: "Job", plural: "jobs"}},
	own: []map[string]any{printed(definition("batch.volcano.sh", "v1alpha1", "Job", "jobs", "vcjob", "vj"), // config/crd/volcano/bases/batch.volcano.sh_jobs.yaml
		column{name: "STATUS", kind: "string", path: ".status.state.phase"}, column{name: "minAvailable", kind: "integer", path: ".status.minAvailable"},
		column{name: "RUNNINGS", kind: "integer", path: ".status.running"}, column{name: "AGE", kind: "date", path: ".metadata.creationTimestamp"},
		column{name: "QUEUE", kind: "string", path: ".spec.queue", wide: true})},
	rules: []any{
		rule("batch.volcano.sh", "jobs", "get", "list", "watch"), rule("batch.volcano.sh", "jobs/status", "update", "patch"), rule("batch.volcano.sh", "jobs/finalizers", "update"),
		rule("scheduling.volcano.sh", "podgroups", "create"), rule("", "services", "create"), rule("", "configmaps", "create"), rule("", "secrets", "create"),
		rule("", "pods", "get", "list", "watch", "create", "delete"), rule("", "events", "create", "patch"), rule("events.k8s.io", "events", "create", "patch"),
	},
	types: func(s *runtime.Scheme) error {
		if err := batch.AddToScheme(s); err != nil {
			return err
		}
		return scheduling.AddToScheme(s)
	},
	setup: func(_ context.Context, m ctrl.Manager) error {
		if err := ctrl.NewWebhookManagedBy(m, &batch.Job{}).WithValidator(onCreate[*batch.Job](vcjob.Check)).Complete(); err != nil {
			return err
		}
		return ctrl.NewControllerManagedBy(m).Named("vcjob").For(&batch.Job{}).Owns(&corev1.Pod{}).Complete(&volcanoJobs{m.GetClient(), m.GetEventRecorderFor("berth-vcjob")})
	},
}

type volcanoJobs struct {
	client.Client
	events record.EventRecorder
}

// Reconcile carries out what vcjob.Expand says.
func (r *volcanoJobs) Reconcile(ctx context.Context, at ctrl.Request) (ctrl.Result, error) {
	var job batch.Job
	if err := r.Get(ctx, at.NamespacedName, &job); err != nil || job.DeletionTimestamp != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	var pods corev1.PodList
	if err := r.List(ctx, &pods, client.InNamespace(at.Namespace), client.MatchingLabels{batch.JobNameKey: at.Name}); err != nil {
		return ctrl.Result{}, err
	}
	plan, err := vcjob.Expand(&job, pods.Items)
	if err != nil { // it stays so until somebody edits it
		r.events.Event(&job, corev1.EventTypeWarning, "NotExpanded", err.Error())
		return ctrl.Result{}, nil
	}
	if len(plan.Untold) > 0 && job.Status.State.Phase == "" {
		r.events.Event(&job, corev1.EventTypeNormal, "NotHonoured", "Berth's expander does not act on "+strings.Join(plan.Untold, ", "))
	}
	objects, err := made(&plan)
	if err != nil {
		return ctrl.Result{}, err
	}
	for _, o := range objects {
		if err := r.Create(ctx, o); err != nil && !apierrors.IsAlreadyExists(err) {
			r.events.Event(&job, corev1.EventTypeWarning, "FailedCreate", err.Error())
			return ctrl.Result{}, err
		}
	}
	for _, name := range plan.Delete {
		p := &corev1.Pod{}
		p.Namespace, p.Name = at.Namespace, name
		if err := r.Delete(ctx, p); client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, err
		}
	}
	if reflect.DeepEqual(plan.Status, job.Status) {
		return ctrl.Result{}, nil
	}
	job.Status = plan.Status
	err = r.Status().Update(ctx, &job)
	if apierrors.IsConflict(err) {
		return ctrl.Result{Requeue: true}, nil
	}
	return ctrl.Result{}, err
}

// made are the objects that the plan has to have created, what pods need before the pods; none where no pod is missing.
func made(plan *vcjob.Plan) ([]client.Object, error) {
	if len(plan.Create) == 0 {
		return nil, nil
	}
	objects := []client.Object{plan.Group}
	if plan.Service != nil {
		objects = append(objects, plan.Service)
	}
	if plan.Hosts != nil {
		objects = append(objects, plan.Hosts)
	}
	if plan.Keys != nil {
		if err := giveKeys(plan.Keys); err != nil {
			return nil, err
		}
		objects = append(objects, plan.Keys)
	}
	for _, p := range plan.Create {
		objects = append(objects, p)
	}
	return objects, nil
}

// giveKeys makes the keys by which a Job's pods log in to each other. Of a Secret that is there already they are thrown away.
func giveKeys(s *corev1.Secret) error {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return err
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		return err
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		return err
	}
	for i, text := range [][]byte{pem.EncodeToMemory(block), ssh.MarshalAuthorizedKey(key), ssh.MarshalAuthorizedKey(key)} {
		s.Data[vcjob.KeyFiles[i]] = text
	}
	return nil
}
