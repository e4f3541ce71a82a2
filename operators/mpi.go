package main

import (
	"context"

	"github.com/kubeflow/mpi-operator/cmd/mpi-operator/app/options"
	kubeflow "github.com/kubeflow/mpi-operator/pkg/apis/kubeflow/v2beta1"
	clientset "github.com/kubeflow/mpi-operator/pkg/client/clientset/versioned"
	mpischeme "github.com/kubeflow/mpi-operator/pkg/client/clientset/versioned/scheme"
	mpiinformers "github.com/kubeflow/mpi-operator/pkg/client/informers/externalversions"
	"github.com/kubeflow/mpi-operator/pkg/controller"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// mpi runs without a gang scheduler: the groups that it would make are for other schedulers. It keeps the keys by which launchers reach
// workers in Secrets, so it is the one operator that may read and write those.
var mpi = operator{
	name: "mpi", secrets: true, without: []string{"apiextensions.k8s.io", "coordination.k8s.io", "scheduling.volcano.sh", "scheduling.x-k8s.io"},
	files: files{
		crds:  []string{"manifests/base/kubeflow.org_mpijobs.yaml"},
		roles: []string{"manifests/base/cluster-role.yaml"},
	},
	types: kubeflow.AddToScheme,
	setup: func(ctx context.Context, m ctrl.Manager) error {
		if err := mpischeme.AddToScheme(clientgoscheme.Scheme); err != nil { // its events are about MPIJobs
			return err
		}
		kube, err := kubernetes.NewForConfig(m.GetConfig())
		if err != nil {
			return err
		}
		jobs, err := clientset.NewForConfig(m.GetConfig())
		if err != nil {
			return err
		}
		own, theirs := informers.NewSharedInformerFactory(kube, 0), mpiinformers.NewSharedInformerFactory(jobs, 0)
		core := own.Core().V1()
		c, err := controller.NewMPIJobController(ctx, kube, jobs, nil, nil, core.ConfigMaps(), core.Secrets(), core.Services(), own.Batch().V1().Jobs(), core.Pods(),
			own.Scheduling().V1().PriorityClasses(), theirs.Kubeflow().V2beta1().MPIJobs(), &options.ServerOption{Threadiness: 2, ControllerRateLimit: 100, ControllerBurst: 1000})
		if err != nil {
			return err
		}
		return m.Add(manager.RunnableFunc(func(ctx context.Context) error {
			own.Start(ctx.Done())
			theirs.Start(ctx.Done())
			return c.Run(2, ctx.Done())
		}))
	},
}
