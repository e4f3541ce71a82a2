package main

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/jobset/pkg/controllers"
	"sigs.k8s.io/jobset/pkg/webhooks"
)

var jobSet = operator{
	name: "jobset", stamped: true,
	files: files{
		crds:     []string{"config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml"},
		roles:    []string{"config/components/rbac/role.yaml"},
		webhooks: "config/components/webhook/manifests.yaml",
		patches: map[string]string{
			"MutatingWebhookConfiguration":   "config/components/webhook/patches/mutating-patch.yaml",
			"ValidatingWebhookConfiguration": "config/components/webhook/patches/validating-patch.yaml",
		},
	},
	types: v1alpha2.AddToScheme,
	setup: func(ctx context.Context, m ctrl.Manager) error {
		if err := controllers.SetupJobSetIndexes(ctx, m.GetFieldIndexer()); err != nil {
			return err
		}
		if err := controllers.SetupPodIndexes(ctx, m.GetFieldIndexer()); err != nil {
			return err
		}
		sets := controllers.NewJobSetReconciler(m.GetClient(), m.GetScheme(), m.GetEventRecorder("jobset"))
		if err := sets.SetupWithManager(m); err != nil {
			return err
		}
		pods := controllers.NewPodReconciler(m.GetClient(), m.GetScheme(), m.GetEventRecorder("pod"))
		if err := pods.SetupWithManager(m); err != nil {
			return err
		}
		return webhooks.Setup(m)
	},
}
