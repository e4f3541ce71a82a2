package main

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/lws/api/leaderworkerset/v1"
	"sigs.k8s.io/lws/pkg/controllers"
	"sigs.k8s.io/lws/pkg/webhooks"
)

// leaderWorkerSet runs without a scheduler provider: the groups that it would make are for other schedulers. DisaggregatedSets
// are left out.
var leaderWorkerSet = operator{
	name: "lws", stamped: true,
	files: files{
		crds:     []string{"config/crd/bases/leaderworkerset.x-k8s.io_leaderworkersets.yaml"},
		roles:    []string{"config/rbac/role.yaml"},
		webhooks: "config/webhook/manifests.yaml",
		patches: map[string]string{
			"MutatingWebhookConfiguration":   "config/webhook/mutating-patch.yaml",
			"ValidatingWebhookConfiguration": "config/webhook/validating-patch.yaml",
		},
	},
	types: v1.AddToScheme,
	setup: func(_ context.Context, m ctrl.Manager) error {
		if err := controllers.SetupIndexes(m.GetFieldIndexer()); err != nil {
			return err
		}
		sets := controllers.NewLeaderWorkerSetReconciler(m.GetClient(), m.GetScheme(), m.GetEventRecorder("leaderworkerset"))
		if err := sets.SetupWithManager(m); err != nil {
			return err
		}
		pods := controllers.NewPodReconciler(m.GetClient(), m.GetScheme(), m.GetEventRecorder("leaderworkerset"), nil)
		if err := pods.SetupWithManager(m); err != nil {
			return err
		}
		if err := webhooks.SetupLeaderWorkerSetWebhook(m); err != nil {
			return err
		}
		return webhooks.NewPodWebhook(nil).Setup(m)
	},
}
