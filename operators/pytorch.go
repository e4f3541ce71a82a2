package main

import (
	"context"

	kubeflowv1 "github.com/kubeflow/training-operator/pkg/apis/kubeflow.org/v1"
	"github.com/kubeflow/training-operator/pkg/config"
	"github.com/kubeflow/training-operator/pkg/controller.v1/common"
	"github.com/kubeflow/training-operator/pkg/controller.v1/pytorch"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
)

// ungrouped is a manager that does not know PodGroups of other schedulers, though the cluster may serve them (--dialect): the controller
// would watch them, without the rights to.
type ungrouped struct{ ctrl.Manager }

func (m ungrouped) GetRESTMapper() meta.RESTMapper { return withoutGroups{m.Manager.GetRESTMapper()} }

type withoutGroups struct{ meta.RESTMapper }

func (w withoutGroups) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if kind.Kind == "PodGroup" {
		return nil, &meta.NoKindMatchError{GroupKind: kind, SearchedVersions: versions}
	}
	return w.RESTMapper.RESTMapping(kind, versions...)
}

// pyTorch is the part of the training-operator that runs PyTorchJobs, without a gang scheduler. Its webhook does not compile with the
// controller-runtime that the other projects need, so mistakes that the schema admits are found by the controller.
var pyTorch = operator{
	name: "pytorch", without: []string{"rbac.authorization.k8s.io", "scheduling.volcano.sh", "scheduling.x-k8s.io"},
	files: files{
		crds:  []string{"manifests/base/crds/kubeflow.org_pytorchjobs.yaml"},
		roles: []string{"manifests/base/rbac/role.yaml"},
	},
	types: kubeflowv1.AddToScheme,
	setup: func(_ context.Context, m ctrl.Manager) error {
		config.Config.PyTorchInitContainerImage = config.PyTorchInitContainerImageDefault
		config.Config.PyTorchInitContainerMaxTries = config.PyTorchInitContainerMaxTriesDefault
		m = ungrouped{m}
		return pytorch.NewReconciler(m, common.GenNonGangSchedulerSetupFunc()).SetupWithManager(m, 1)
	},
}
