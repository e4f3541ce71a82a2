package main

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
)

// operator is one project's controllers.
type operator struct {
	name string
	// files are where its module keeps what has to be installed, below the folder of its name in manifests. scripts/operators
	// copies them there.
	files files
	// stamped says that Berth's policy writes into its objects whose work they are, templates included, so that its controllers
	// may pass the name on (kube/policy/manifests/user.yaml).
	stamped bool
	// needs is the operator that it cannot do without, which is run too; "": none.
	needs string
	// without are API groups of its role that it needs for what it does not do here: other schedulers, leases, roles for launchers.
	without []string
	// secrets says that it cannot work without Secrets of its own.
	secrets bool
	// own are definitions, and rules the rights, of an operator of Berth's own, which has no module with files.
	own   []map[string]any
	rules []any
	// checked are the kinds of such an operator that a webhook of its own checks.
	checked []hook
	// types adds its kinds to the scheme of its manager.
	types func(*runtime.Scheme) error
	// setup adds its controllers and webhooks to the manager.
	setup func(context.Context, ctrl.Manager) error
}

// hook is a kind that is checked by a validating webhook, which controller-runtime serves under a path that follows from it.
type hook struct{ group, version, kind, plural string }

// files are paths of YAML in a module.
type files struct {
	crds  []string
	roles []string
	// webhooks is the file with the webhook configurations, "" for none, and patches are the JSON patches that the project's
	// own installation applies to them, by kind.
	webhooks string
	patches  map[string]string
}

// all are in the order of their names.
var all = []operator{jobSet, leaderWorkerSet, mpi, pyTorch, kubeRay, trainJob, volcanoJob}
