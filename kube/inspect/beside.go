package inspect

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/diagnose/facts"
)

// besideFor is how long kinds beside the table are read, all together: they make answers better, and no answer waits for them.
const besideFor = 2 * time.Second

// notBeside are the API groups of which nothing is read beside the table: what holds back no pod, what is a view of what
// is read anyway, and what says who may do what. Secrets are of the core group, of which nothing is read either. Of berth.dev the table has what
// decides; a Fault is what somebody who practises is to find from what it does.
var notBeside = []string{
	"", "apps", "batch", "autoscaling", "policy", "extensions", "authentication.k8s.io", "authorization.k8s.io", "rbac.authorization.k8s.io", "metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io",
	"events.k8s.io", "coordination.k8s.io", "discovery.k8s.io", "flowcontrol.apiserver.k8s.io", "networking.k8s.io", "node.k8s.io", "admissionregistration.k8s.io", "internal.apiserver.k8s.io", "storagemigration.k8s.io",
	"apiextensions.k8s.io", "apiregistration.k8s.io", "certificates.k8s.io", "wgpolicyk8s.io", "reports.kyverno.io", "monitoring.coreos.com", "visibility.kueue.x-k8s.io", "answers.berth.dev", "berth.dev", "packages.operators.coreos.com",
}

// beside is one kind that the cluster serves and the table does not have.
type beside struct {
	schema.GroupVersionKind
	resource   string
	namespaced bool
}

// besides are the kinds beside the table that can be listed: those of owners and of warnings in the facts first.
func (s *served) besides(f *facts.Facts) []beside {
	first := wanted(f)
	out := slices.Clone(s.more)
	rank := func(k beside) int {
		if first[k.GroupKind()] {
			return 0
		}
		return 1
	}
	// By name among each other: discovery has no order, and answers to the same question are alike.
	slices.SortFunc(out, func(a, b beside) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Group, b.Group), cmp.Compare(a.resource, b.resource))
	})
	return out
}

// wanted are the kinds that own something in the facts, or that a warning is about.
func wanted(f *facts.Facts) map[schema.GroupKind]bool {
	out := make(map[schema.GroupKind]bool)
	for _, k := range f.Objects.Kinds() {
		for _, o := range k.List(&f.Objects) {
			for _, r := range o.GetOwnerReferences() {
				out[schema.FromAPIVersionAndKind(r.APIVersion, r.Kind).GroupKind()] = true
			}
		}
	}
	for _, e := range f.Events {
		if e.Type == corev1.EventTypeWarning {
			out[schema.FromAPIVersionAndKind(e.InvolvedObject.APIVersion, e.InvolvedObject.Kind).GroupKind()] = true
		}
	}
	return out
}

// addBeside notes a kind that is not in the table.
func (s *served) addBeside(gv schema.GroupVersion, r *metav1.APIResource) {
	if strings.Contains(r.Name, "/") || !slices.Contains([]string(r.Verbs), "list") || slices.Contains(notBeside, gv.Group) || facts.KindOf(gv.Group, r.Kind) != nil {
		return
	}
	if !slices.ContainsFunc(s.more, func(k beside) bool { return k.Group == gv.Group && k.resource == r.Name }) {
		s.more = append(s.more, beside{gv.WithKind(r.Kind), r.Name, r.Namespaced})
	}
}

// readBeside reads the kinds beside the table for as long as besideFor. What was not read is unseen.
func (c *cluster) readBeside(ctx context.Context, o Options, f *facts.Facts, s *served) {
	kinds := s.besides(f)
	if len(kinds) == 0 {
		return
	}
	ctx, stop := context.WithTimeout(ctx, besideFor)
	defer stop()
	answers := make([]answer, len(kinds))
	var g errgroup.Group
	g.SetLimit(atOnce)
	for i, k := range kinds {
		g.Go(func() error {
			row := facts.FoundAs(k.GroupVersionKind, k.resource, k.namespaced)
			if ctx.Err() != nil {
				answers[i] = answer{unseen: []facts.Unseen{{Resource: row.Name(), Reason: reason(errLate)}}}
				return nil
			}
			answers[i] = c.read(ctx, o, row, func() served { return *s })
			return nil
		})
	}
	_ = g.Wait() // what failed is in the answers
	for i, k := range kinds {
		row := facts.FoundAs(k.GroupVersionKind, k.resource, k.namespaced)
		for _, object := range answers[i].objects {
			row.Add(&f.Objects, object)
		}
		f.Unseen = append(f.Unseen, answers[i].unseen...)
	}
}
