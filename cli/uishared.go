package cli

import (
	"cmp"
	"log/slog"

	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/kube/answer"
	"github.com/berth-dev/berth/kube/install"
	"github.com/berth-dev/berth/web"
)

// sharedPage is the page that a scheduler shows through the API server (ADR 105). Questions are answered by the code of the commands,
// which read with a way to the API server that is limited to what the viewer may read too.
func sharedPage(cfg *rest.Config, title, decisions string, log *slog.Logger) (*web.Shared, error) {
	questions := func(v *answer.Viewer, r answer.Rights) web.Questions {
		o := &uiOptions{streams: quiet}
		o.program, o.small = "kubectl berth", true
		o.found = clusterOf(v, r, cfg, title, decisions)
		return &uiQuestions{o: o}
	}
	return web.NewShared(web.SharedOptions{Config: cfg, Questions: questions, Cluster: title, Version: Version, Grant: install.PageGrant, Log: log})
}

// clusterOf is the cluster as a viewer may read it. The decision log names everybody's work and where it ran.
func clusterOf(v *answer.Viewer, r answer.Rights, cfg *rest.Config, title, decisions string) *cluster {
	out := &cluster{config: v.Limit(cfg), namespace: cmp.Or(v.Namespace, "default"), kubectl: "kubectl", portable: "kubectl", title: title}
	if out.partly = !r.Nodes || !r.Pods; !out.partly {
		out.decisions = decisions
	}
	return out
}
