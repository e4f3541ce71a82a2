package l2

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

// How long pods of the GPU software take to become ready when all is well: a driver is compiled on the node.
const (
	driverTakes = 10 * time.Minute
	pluginTakes = 2 * time.Minute
)

// stackStarting says whether the pod is young and nothing has gone wrong with it yet.
func stackStarting(c *check.Case, p *corev1.Pod, takes time.Duration) bool {
	for _, s := range p.Status.ContainerStatuses {
		if s.RestartCount > 0 {
			return false
		}
	}
	word := gpustack.Trouble(p)
	return c.Now.Sub(p.CreationTimestamp.Time) < takes && (word == "Pending" || word == "not ready")
}

// lackWords says why the role's pod does not serve the node: what is wrong with it, or why there is none.
func lackWords(c *check.Case, r gpustack.Role, p *corev1.Pod, g *gpustack.Node) string {
	if p != nil {
		if word := gpustack.Trouble(p); word != "not ready" {
			if l := lostImageOf(c, p); l != nil {
				word += ", as the node cannot have image " + l.image
			}
			return fmt.Sprintf("its pod %s is %s%s%s", p.Name, word, initWords(c, p), lastWords(c, p))
		}
		return fmt.Sprintf("its pod %s has not been ready for %s", p.Name, wording.Minutes(c.Now.Sub(p.CreationTimestamp.Time)))
	}
	a := gpustack.Of(c.Facts).WhyAbsent(r, g.Node)
	switch {
	case a.Set == nil && !c.Sees("daemonsets.apps", ""):
		return "no pod of it runs there"
	case a.Set == nil:
		if said, _ := driverObject(c, r); said != "" {
			return "there is no DaemonSet of it, and " + said
		}
		return "there is no DaemonSet of it"
	case a.Key != "" && g.Labels[a.Key] == "":
		out := fmt.Sprintf("DaemonSet %s runs where %s=%s, a label that the node does not have", a.Set.Name, a.Key, a.Value)
		if w := gpustack.WriterOf(c.Facts, a.Key); w != nil {
			out += "; " + w.Says
		}
		return out
	case a.Key != "":
		return fmt.Sprintf("DaemonSet %s runs where %s=%s, and there it is %s", a.Set.Name, a.Key, a.Value, g.Labels[a.Key])
	case a.Taint != nil:
		return fmt.Sprintf("DaemonSet %s does not tolerate the node's taint %s", a.Set.Name, podspec.TaintText(*a.Taint))
	case a.Other:
		return fmt.Sprintf("the node affinity of DaemonSet %s does not match the node", a.Set.Name)
	}
	said := ""
	if all := c.EventsOf(a.Set, "FailedCreate"); len(all) > 0 && a.Set.Status.CurrentNumberScheduled < a.Set.Status.DesiredNumberScheduled {
		said = ", which the API server refuses: " + wording.Shortened(strings.TrimPrefix(wording.OneLine(all[0].Message), "Error creating: "), 240)
	}
	return fmt.Sprintf("DaemonSet %s has made no pod there%s", a.Set.Name, said)
}

// initWords says which init container the pod waits for; "" for none. Those of the GPU software wait for one another.
func initWords(c *check.Case, p *corev1.Pod) string {
	for i, s := range p.Status.InitContainerStatuses {
		if s.State.Running == nil || s.Ready || i < len(p.Spec.InitContainers) && p.Spec.InitContainers[i].RestartPolicy != nil {
			continue
		}
		out := fmt.Sprintf(", in init container %s for %s", s.Name, wording.Minutes(c.Now.Sub(s.State.Running.StartedAt.Time)))
		if line := wording.LastLine(c.Logs[p.Namespace+"/"+p.Name+"/"+s.Name]); line != "" {
			out += ": " + wording.Shortened(line, 200)
		}
		return out
	}
	return ""
}

// lastWords says how the pod's container ended last, and the last line of its log; "" where neither is known.
func lastWords(c *check.Case, p *corev1.Pod) string {
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		t := facts.LastEnd(&s)
		if t == nil {
			continue
		}
		out := fmt.Sprintf("; container %s ended with exit code %d", s.Name, t.ExitCode)
		if t.Reason != "" && t.Reason != "Error" {
			out += " (" + t.Reason + ")"
		}
		key := p.Namespace + "/" + p.Name + "/" + s.Name
		if line := wording.LastLine(cmp.Or(c.Logs[key+"/previous"], c.Logs[key], t.Message)); line != "" {
			out += ": " + wording.Shortened(line, 200)
		}
		return out
	}
	return ""
}

// crashes is how often the pod's container was started again after it ended.
func crashes(p *corev1.Pod) int32 {
	most := int32(0)
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if w := s.State.Waiting; w != nil && w.Reason == "CrashLoopBackOff" {
			most = max(most, s.RestartCount)
		}
	}
	return most
}

// crashAdvice is for a pod that the kubelet starts again and again in vain.
func crashAdvice(p *corev1.Pod) string {
	if p == nil || crashes(p) < inVain {
		return ""
	}
	return fmt.Sprintf("Read its log (kubectl logs %s -n %s --previous) and mend what it names: its settings, its image or the node. It was started %d times; once more does not help.", p.Name, p.Namespace, crashes(p)+1)
}

// inVain is how many restarts by the kubelet show that another one does not help.
const inVain = 1

// driverObject is what an NVIDIADriver reports, which is where the GPU Operator is told of drivers by node; "" where none is unwell.
func driverObject(c *check.Case, r gpustack.Role) (string, facts.Evidence) {
	if r != gpustack.RoleDriver {
		return "", facts.Evidence{}
	}
	for _, u := range c.Foreign["NVIDIADriver.nvidia.com"] {
		var worst *facts.Condition
		for _, k := range facts.ConditionsOf(u) {
			if k.Bad() && (worst == nil || worst.Message == "" && k.Message != "") {
				worst = &k
			}
		}
		if worst != nil {
			said := cmp.Or(worst.Message, worst.Reason)
			return fmt.Sprintf("%s reports: %s", facts.RefTo(u), wording.Shortened(said, 200)), facts.Evidence{Object: facts.RefTo(u).In(), Field: worst.Field, Value: said}
		}
	}
	return "", facts.Evidence{}
}

// lackShown is where that can be read.
func lackShown(c *check.Case, r gpustack.Role, p *corev1.Pod, g *gpustack.Node) (out []facts.Evidence) {
	node := facts.RefTo(g.Node).In()
	key := gpustack.LabelDeploy + gpustack.Operand[r]
	if v := g.Labels[key]; v != "" {
		out = append(out, facts.Evidence{Object: node, Field: fmt.Sprintf("metadata.labels[%q]", key), Value: v})
	}
	if p != nil {
		out = append(out, facts.Evidence{Object: facts.RefTo(p).In(), Field: "status", Value: gpustack.Trouble(p)})
	}
	if l := lostImageOf(c, p); l != nil {
		out = append(out, l.shown(c))
	}
	if a := gpustack.Of(c.Facts).WhyAbsent(r, g.Node); p == nil && a.Set != nil {
		e := facts.Evidence{Object: facts.RefTo(a.Set).In(), Field: "status.desiredNumberScheduled", Value: strconv.Itoa(int(a.Set.Status.DesiredNumberScheduled))}
		if a.Key != "" {
			e.Field, e.Value = "spec.template.spec.nodeSelector", selectorWords(a.Set.Spec.Template.Spec.NodeSelector)
		}
		out = append(out, e)
		if w := gpustack.WriterOf(c.Facts, a.Key); a.Key != "" && g.Labels[a.Key] == "" && w != nil {
			out = append(out, w.Evidence)
		}
		for _, event := range c.EventsOf(a.Set, "FailedCreate")[:min(1, len(c.EventsOf(a.Set, "FailedCreate")))] {
			out = append(out, life.Shown(event))
		}
	}
	if _, e := driverObject(c, r); e.Object != "" && p == nil {
		out = append(out, e)
	}
	if reason, message, e := gpustack.OperatorSays(c.Facts); reason != "" {
		e.Value = strings.TrimSpace(reason + " " + wording.Shortened(wording.FirstLine(message), 160))
		out = append(out, e)
	}
	return out
}
