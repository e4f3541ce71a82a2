package l2

import (
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/life"
)

var runtimeHandlerMissingCheck = check.Check{
	Cause: "runtime-handler-missing", Layer: check.L2, Owner: check.Platform, Stage: check.Start, Rank: 12,
	Title:   "The node's container runtime does not know the RuntimeClass",
	Meaning: "The pod has a node and asks for a RuntimeClass whose handler the container runtime of the node was never told of: the container toolkit has not set it up.",
	Remedy:  "Have the container toolkit run on the node, and restart its container runtime.",
	Not:     "The image is wrong.",
	Find:    runtimeHandlerMissing,
}

func runtimeHandlerMissing(c *check.Case) []check.Finding {
	for _, e := range life.Troubles(c, "FailedCreatePodSandBox") {
		handler := missingHandler(e.Message)
		if handler == "" {
			continue
		}
		node := c.Pod.Spec.NodeName
		f := check.Finding{
			Message:  fmt.Sprintf("the container runtime of node %s has no handler %q, which RuntimeClass %s of the pod asks for", node, handler, ptr.Deref(c.Pod.Spec.RuntimeClassName, handler)),
			Evidence: []facts.Evidence{life.Shown(e)},
		}
		if edit, ok := bringToolkit(c, &f); ok {
			f.Edits = append(f.Edits, edit)
		}
		return []check.Finding{f}
	}
	return handlerUnserved(c)
}

// handlerUnserved goes by the state of the node where no event tells: the pod asks for a runtime that the container toolkit sets up, has no
// sandbox, and the toolkit is not ready there.
func handlerUnserved(c *check.Case) []check.Finding {
	name := ptr.Deref(c.Pod.Spec.RuntimeClassName, "")
	if name == "" || !life.AwaitsContainers(c) || life.HasSandbox(c.Pod) || c.Now.Sub(life.Since(c.Pod)) < pluginTakes {
		return nil
	}
	handler := name
	for _, r := range c.RuntimeClasses {
		if r.Name == name {
			handler = r.Handler
		}
	}
	if !strings.HasPrefix(handler, "nvidia") {
		return nil
	}
	f := check.Finding{Message: fmt.Sprintf("node %s has made no sandbox for pod %s with handler %q, which RuntimeClass %s of the pod asks for", c.Pod.Spec.NodeName, c.Pod.Name, handler, name)}
	edit, ok := bringToolkit(c, &f)
	if len(f.Evidence) == 0 {
		return nil // the toolkit is well
	}
	if ok {
		f.Edits = append(f.Edits, edit)
	}
	return []check.Finding{f}
}

var handlerForms = []*regexp.Regexp{
	regexp.MustCompile(`no runtime for "([^"]{1,63})" is configured`),
	regexp.MustCompile(`failed to find runtime handler "?([a-zA-Z0-9._-]{1,63})"? from runtime list`),
	regexp.MustCompile(`RuntimeHandler "([^"]{1,63})" not supported`),
}

// missingHandler is the handler that a container runtime does not know, by what containerd, CRI-O and dockershim's
// successor say; "" for other messages.
func missingHandler(message string) string {
	for _, form := range handlerForms {
		if m := form.FindStringSubmatch(message); m != nil {
			return m[1]
		}
	}
	return ""
}

// bringToolkit has the container toolkit run on the pod's node, where a label keeps it off, and says in the finding
// what the toolkit does there.
func bringToolkit(c *check.Case, f *check.Finding) (edit.Edit, bool) {
	g := gpustack.NodeNamed(c.Facts, c.Pod.Spec.NodeName)
	if g == nil || len(g.Ready(gpustack.RoleToolkit)) > 0 || len(gpustack.Of(c.Facts).Sets[gpustack.RoleToolkit]) == 0 && len(g.Pods[gpustack.RoleToolkit]) == 0 {
		return edit.Edit{}, false
	}
	pod := g.Unready(gpustack.RoleToolkit)
	f.Message += "; the container toolkit does not serve it: " + lackWords(c, gpustack.RoleToolkit, pod, g)
	f.Evidence = append(f.Evidence, lackShown(c, gpustack.RoleToolkit, pod, g)...)
	a := gpustack.Of(c.Facts).WhyAbsent(gpustack.RoleToolkit, g.Node)
	if pod != nil || a.Set == nil || a.Key == "" {
		return edit.Edit{}, false
	}
	after := gpustack.ChangedNode(g.Node, func(n *corev1.Node) { n.Labels = gpustack.WithLabel(n.Labels, a.Key, a.Value) })
	here := life.Alike(c, func(p *corev1.Pod) bool { return facts.StateOf(p) == facts.Starting && p.Spec.NodeName == g.Name })
	return edit.Edit{
		Side: edit.Cluster, Cost: 3, Set: append(life.Running(here), after), Outcome: "starts on node " + g.Name,
		Text:    fmt.Sprintf("label node %s %s=%s, so that the container toolkit runs there", g.Name, a.Key, a.Value),
		Command: fmt.Sprintf("kubectl label node %s %s=%s --overwrite", g.Name, a.Key, a.Value),
		Assumes: "the toolkit sets the handler up and the container runtime reads it",
	}, true
}
