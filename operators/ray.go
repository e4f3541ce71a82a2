package main

import (
	"context"
	"errors"
	"os"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	"github.com/ray-project/kuberay/ray-operator/controllers/ray"
	"github.com/ray-project/kuberay/ray-operator/controllers/ray/utils"
	"github.com/ray-project/kuberay/ray-operator/controllers/ray/utils/dashboardclient"
	utiltypes "github.com/ray-project/kuberay/ray-operator/controllers/ray/utils/types"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// kubeRay runs RayClusters and RayJobs. RayServices are left out: what they serve would have to be asked of Ray itself.
//
// Simulated pods run no Ray. So probes and init containers that ask it are not put into pods, and the dashboard, which KubeRay asks
// what has become of a job, is simulated: a job is as the pod is that submits it.
var kubeRay = operator{
	name: "ray",
	files: files{
		crds:     []string{"config/crd/bases/ray.io_rayclusters.yaml", "config/crd/bases/ray.io_rayjobs.yaml"},
		roles:    []string{"config/rbac/role.yaml"},
		webhooks: "config/webhook/manifests.yaml",
	},
	types: rayv1.AddToScheme,
	setup: func(ctx context.Context, m ctrl.Manager) error {
		for _, name := range []string{"ENABLE_PROBES_INJECTION", "ENABLE_INIT_CONTAINER_INJECTION"} {
			if err := os.Setenv(name, "false"); err != nil {
				return err
			}
		}
		if err := ray.NewReconciler(ctx, m, ray.RayClusterReconcilerOptions{}).SetupWithManager(m, 1); err != nil {
			return err
		}
		if err := ray.NewRayJobReconciler(ctx, m, ray.RayJobReconcilerOptions{}, dashboards{}).SetupWithManager(m, 1); err != nil {
			return err
		}
		return errors.Join(
			ctrl.NewWebhookManagedBy(m, &rayv1.RayCluster{}).WithValidator(checked[*rayv1.RayCluster](func(c *rayv1.RayCluster) error {
				return errors.Join(utils.ValidateRayClusterMetadata(c.ObjectMeta), utils.ValidateRayClusterSpec(&c.Spec, c.Annotations))
			})).Complete(),
			ctrl.NewWebhookManagedBy(m, &rayv1.RayJob{}).WithValidator(checked[*rayv1.RayJob](func(j *rayv1.RayJob) error {
				return errors.Join(utils.ValidateRayJobMetadata(j.ObjectMeta), utils.ValidateRayJobSpec(j))
			})).Complete(),
		)
	},
}

// checked is a webhook with the checks of KubeRay's controllers: its own webhooks, which check less, do not compile with the
// controller-runtime that the other projects need.
type checked[T runtime.Object] func(T) error

func (c checked[T]) ValidateCreate(_ context.Context, o T) (admission.Warnings, error) {
	return nil, c(o)
}
func (c checked[T]) ValidateUpdate(_ context.Context, _, o T) (admission.Warnings, error) {
	return nil, c(o)
}
func (c checked[T]) ValidateDelete(context.Context, T) (admission.Warnings, error) { return nil, nil }

// dashboards simulates the dashboard of every cluster.
type dashboards struct{}

func (dashboards) GetDashboardClient(_ context.Context, m manager.Manager) func(*rayv1.RayCluster, string) (dashboardclient.RayDashboardClientInterface, error) {
	return func(c *rayv1.RayCluster, _ string) (dashboardclient.RayDashboardClientInterface, error) {
		return &dashboard{client: m.GetClient(), cluster: c}, nil
	}
}

func (dashboards) GetHttpProxyClient(manager.Manager) func(string, string, string, int) utils.RayHttpProxyClientInterface {
	return nil // RayServices alone ask for it
}

// dashboard answers for one cluster; what is asked for RayServices alone it does not have.
type dashboard struct {
	dashboardclient.RayDashboardClientInterface
	client  client.Client
	cluster *rayv1.RayCluster
}

// GetJobInfo says that the job is as the Job is that submits it, which has the name of the RayJob.
func (d *dashboard) GetJobInfo(ctx context.Context, id string) (*utiltypes.RayJobInfo, error) {
	out := &utiltypes.RayJobInfo{SubmissionId: id, JobStatus: rayv1.JobStatusPending}
	owner := ""
	for _, ref := range d.cluster.OwnerReferences {
		if ref.Kind == "RayJob" {
			owner = ref.Name
		}
	}
	var j batchv1.Job
	if err := d.client.Get(ctx, client.ObjectKey{Namespace: d.cluster.Namespace, Name: owner}, &j); apierrors.IsNotFound(err) || owner == "" {
		return out, nil
	} else if err != nil {
		return nil, err
	}
	if j.Status.Ready != nil && *j.Status.Ready > 0 {
		out.JobStatus = rayv1.JobStatusRunning
	}
	for _, c := range j.Status.Conditions {
		switch {
		case c.Status != corev1.ConditionTrue:
		case c.Type == batchv1.JobComplete:
			out.JobStatus = rayv1.JobStatusSucceeded
		case c.Type == batchv1.JobFailed:
			out.JobStatus = rayv1.JobStatusFailed
		}
	}
	return out, nil
}

func (*dashboard) StopJob(context.Context, string) error { return nil }
