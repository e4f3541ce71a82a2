package main

import (
	"context"
	"errors"
	"os"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	"github.com/ray-project/kuberay/ray-operator/controllers/ray"
	"github.com/ray-project/kuberay/ray-operator/controllers/ray/utils"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// kubeRay runs RayClusters, RayJobs and RayServices. RayCronJobs are left out.
//
// Simulated pods run no Ray. So probes and init containers that ask it are not put into pods, and the dashboard, which KubeRay asks
// what has become of a job or of Serve's applications, is simulated (raydashboard.go).
var kubeRay = operator{
	name: "ray", secrets: true, // its clusters may have a token
	files: files{
		crds:     []string{"config/crd/bases/ray.io_rayclusters.yaml", "config/crd/bases/ray.io_rayjobs.yaml", "config/crd/bases/ray.io_rayservices.yaml"},
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
		simulated := &dashboards{}
		if err := ray.NewRayJobReconciler(ctx, m, ray.RayJobReconcilerOptions{}, simulated).SetupWithManager(m, 1); err != nil {
			return err
		}
		if err := ray.NewRayServiceReconciler(ctx, m, simulated).SetupWithManager(m, 1); err != nil {
			return err
		}
		return errors.Join(
			ctrl.NewWebhookManagedBy(m, &rayv1.RayCluster{}).WithValidator(checked[*rayv1.RayCluster](func(c *rayv1.RayCluster) error {
				return errors.Join(utils.ValidateRayClusterMetadata(c.ObjectMeta), utils.ValidateRayClusterSpec(&c.Spec, c.Annotations))
			})).Complete(),
			ctrl.NewWebhookManagedBy(m, &rayv1.RayJob{}).WithValidator(checked[*rayv1.RayJob](func(j *rayv1.RayJob) error {
				return errors.Join(utils.ValidateRayJobMetadata(j.ObjectMeta), utils.ValidateRayJobSpec(j))
			})).Complete(),
			ctrl.NewWebhookManagedBy(m, &rayv1.RayService{}).WithValidator(checked[*rayv1.RayService](func(s *rayv1.RayService) error {
				return errors.Join(utils.ValidateRayServiceMetadata(s.ObjectMeta), utils.ValidateRayServiceSpec(s))
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
