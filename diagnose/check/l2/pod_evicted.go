package l2

import (
	"fmt"
	"regexp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var podEvictedCheck = check.Check{
	Cause: "pod-evicted", Layer: check.L2, Owner: check.Platform, Stage: check.Run, Rank: 50,
	Title:   "The node throws the pod out",
	Meaning: "The kubelet ended the pod to save the node: memory, disk or process numbers ran short there, the pod wrote more than its share, or the node was shut down. Or somebody tainted the node, and the pod tolerates the taint for a while only. A controller makes another; a bare pod stays as it is.",
	Remedy:  "Give the pod requests and limits that match what it uses, or free the node of what fills it.",
	Not:     "The program failed.",
	Find:    podEvicted,
}

func podEvicted(c *check.Case) []check.Finding {
	if f, ok := disrupted(c); ok {
		return []check.Finding{f}
	}
	if f, ok := beingEvicted(c); ok {
		return []check.Finding{f}
	}
	if all := life.EvictedBefore(c); len(all) > 0 {
		return []check.Finding{evictedAgain(c, all)}
	}
	if f, ok := toBeEvicted(c); ok {
		return []check.Finding{f}
	}
	if c.State != facts.Failed || !slices.Contains([]string{"Evicted", "NodeShutdown", "Terminated", "Shutdown", "Preempting"}, c.Pod.Status.Reason) {
		return nil
	}
	f := check.Finding{
		Message:  fmt.Sprintf("node %s threw out %s: %s", c.Pod.Spec.NodeName, life.Refused(c), wording.Shortened(c.Pod.Status.Message, 200)),
		Evidence: []facts.Evidence{life.Failure(c)},
	}
	if wording.Mentions(c.Pod.Status.Message, "exceeds the limit", "exceeded its local ephemeral storage limit", "exceeds the total limit") {
		f.Layer, f.Owner, f.Advice = check.L4, check.ML, "Write less to the container's disk and its emptyDirs, or raise their limits."
		if volume := fullVolume.FindStringSubmatch(c.Pod.Status.Message); volume != nil {
			f.Owner = check.User
			f.Edits = largerVolume(c, volume[1])
		}
	}
	return []check.Finding{f}
}

// toBeEvicted is about pods that run, or start, on a node whose taint they tolerate for a while only.
func toBeEvicted(c *check.Case) (check.Finding, bool) {
	if c.State != facts.Running && c.State != facts.Starting {
		return check.Finding{}, false
	}
	there := slices.DeleteFunc(slices.Clone(c.All), func(p *corev1.Pod) bool { return life.Doomed(c.Facts, p) == nil })
	if len(there) == 0 {
		return check.Finding{}, false
	}
	p := slices.MinFunc(there, func(a, b *corev1.Pod) int {
		return life.Doomed(c.Facts, a).Latest.Compare(life.Doomed(c.Facts, b).Latest)
	})
	e := life.Doomed(c.Facts, p)
	taint := podspec.TaintText(e.Taint)
	when := "at " + e.Latest.UTC().Format("15:04:05 UTC")
	if e.Earliest != e.Latest {
		when = "by " + e.Latest.UTC().Format("15:04:05 UTC")
	}
	also := ""
	if len(there) > 1 {
		also = fmt.Sprintf(", as are %s of %s", wording.Number(len(there)-1, "other pod"), facts.RefTo(c.Owner()))
	}
	return check.Finding{
		Message: fmt.Sprintf("pod %s is evicted from node %s %s%s: the node has the taint %s, which the pod tolerates for %s only", p.Name, e.Node.Name, when, also, taint, wording.RoundAge(time.Duration(e.Seconds)*time.Second)),
		Evidence: []facts.Evidence{
			{Object: facts.RefTo(e.Node).In(), Field: "spec.taints", Value: taint},
			{Object: facts.RefTo(p).In(), Field: "spec.tolerations", Value: fmt.Sprintf("%s for %d seconds", taint, e.Seconds)},
		},
		Advice: "Ask who tainted the node what for, and whether the taint goes before then. Otherwise have the program write a checkpoint, and make sure that there is room elsewhere for the pod that its controller makes in its place; a bare pod is not made again.",
	}, true
}

// disruptions are the reasons of the condition DisruptionTarget, which the component that ends a pod before its time sets on it.
var disruptions = map[string]struct {
	what  string
	layer check.Layer
	owner check.Owner
}{
	corev1.PodReasonPreemptionByScheduler: {"was preempted for a pod of higher priority", check.L3, check.Scheduler},
	"DeletionByTaintManager":              {"was evicted because of a taint of its node", check.L2, check.Platform},
	"EvictionByEvictionAPI":               {"was evicted through the API, as a drain does", check.L2, check.Platform},
	"DeletionByPodGC":                     {"was deleted because its node is gone", check.L2, check.Platform},
}

// evictedAgain is about a pod that runs in the place of others, each of which was ended before its time.
func evictedAgain(c *check.Case, before []*corev1.Pod) check.Finding {
	last := before[0]
	k := life.Disrupted(last)
	d, known := disruptions[k.Reason]
	if !known {
		d.what, d.layer, d.owner = "was ended before its time", check.L2, check.Platform
	}
	return check.Finding{
		Layer: d.layer, Owner: d.owner,
		Message: fmt.Sprintf("%s of %s were ended before pod %s; the last, %s, %s after %s, and this one has been there for less: %s", wording.Number(len(before), "pod"), facts.RefTo(c.Owner()), c.Pod.Name,
			last.Name, d.what, wording.Minutes(life.Lived(last)), wording.Shortened(k.Message, 160)),
		Evidence: []facts.Evidence{{Object: facts.RefTo(last).In(), Field: "status.conditions[DisruptionTarget]", Value: k.Reason + ": " + wording.Shortened(k.Message, 200)}},
		Advice:   "Find who ends them: a descheduler, a drain, an autoscaler that packs nodes, work of higher priority. Have it leave this work alone, and write checkpoints more often than it ends pods.",
	}
}

// disrupted is a pod that failed because it was ended, not by its own doing.
func disrupted(c *check.Case) (check.Finding, bool) {
	if c.State != facts.Failed || c.Pod.Status.Reason != "" {
		return check.Finding{}, false
	}
	k := life.Disrupted(c.Pod)
	if k == nil {
		return check.Finding{}, false
	}
	d, known := disruptions[k.Reason]
	if !known {
		d.what, d.layer, d.owner = "was ended before its time", check.L2, check.Platform
	}
	return check.Finding{
		Message: fmt.Sprintf("%s %s on node %s: %s", life.Refused(c), d.what, c.Pod.Spec.NodeName, wording.Shortened(k.Message, 200)), Layer: d.layer, Owner: d.owner,
		Evidence: []facts.Evidence{{Object: facts.RefTo(c.Pod).In(), Field: "status.conditions[DisruptionTarget]", Value: k.Reason + ": " + wording.Shortened(k.Message, 200)}},
		Advice:   "Create the pod again, or have a Job or a Deployment make it: a bare pod that was ended stays as it is.",
	}, true
}

// beingEvicted is about a pod that somebody has ended before its time and that still has its grace period.
func beingEvicted(c *check.Case) (check.Finding, bool) {
	k, gone := life.Disrupted(c.Pod), c.Pod.DeletionTimestamp
	if k == nil || gone == nil || gone.Time.Before(c.Now) || c.Target.Kind != "Pod" || facts.Ended(c.Pod) {
		return check.Finding{}, false
	}
	d, known := disruptions[k.Reason]
	if !known {
		d.what, d.layer, d.owner = "was ended before its time", check.L2, check.Platform
	}
	return check.Finding{
		Message: fmt.Sprintf("pod %s %s, and has until %s to end by itself: %s", c.Pod.Name, d.what, gone.UTC().Format("15:04:05 UTC"), wording.Shortened(k.Message, 200)), Layer: d.layer, Owner: d.owner,
		Evidence: []facts.Evidence{{Object: facts.RefTo(c.Pod).In(), Field: "status.conditions[DisruptionTarget]", Value: k.Reason + ": " + wording.Shortened(k.Message, 200)}},
		Advice:   "Have the program write a checkpoint when it is told to end (SIGTERM). A controller makes another pod in its place; a bare pod is not made again.",
	}, true
}

// fullVolume is how kubelets say that an emptyDir holds more than its limit (kubernetes pkg/kubelet/eviction/helpers.go).
var fullVolume = regexp.MustCompile(`Usage of EmptyDir volume "([^"]+)" exceeds the limit`)

// largerVolume doubles the limit of the emptyDir.
func largerVolume(c *check.Case, name string) []edit.Edit {
	for i, v := range place.Written(c).Spec.Volumes {
		if v.Name != name || v.EmptyDir == nil || v.EmptyDir.SizeLimit == nil {
			continue
		}
		return []edit.Edit{place.LargerEmptyDir(i, &v)}
	}
	return nil
}
