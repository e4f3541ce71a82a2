package scheduler

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/kube/telemetry"
)

const (
	// healthRound is how often the health of every GPU is read, and healthTicks in how many steps: exporters are read a part at a time.
	healthRound = 15 * time.Second
	healthTicks = 5
	// healthPages bounds the exporters that are read in one step, and so what reading costs: 20 a second. A round over more than 300 nodes
	// takes longer than healthRound; a Prometheus is asked about all at once.
	healthPages = 60
	// coolFor is for how long a GPU that heat held down is not given to new work: without work it is cool, and with work it would be hot.
	coolFor = 10 * time.Minute
)

// applicationXids are errors of programs, for which NVIDIA's device plugin keeps a GPU. What DP_DISABLE_HEALTHCHECKS adds there it does
// not look at, and DCGM does: the GPU is broken all the same.
var applicationXids = []int{13, 31, 43, 45, 68, 109}

// watchman finds GPUs that DCGM shows to be broken and lists them on their nodes, from which the feed has it (ADR 147).
type watchman struct {
	s      *scheduler
	source telemetry.HealthSource
	turn   string               // the last node that was read
	at     map[string]throttle  // by UUID, of GPUs whose clocks were held down by heat
	hot    map[string]time.Time // by UUID: when that was last so for most of the time
	failed string               // what was last said of the source; "": it works
	most   bool                 // it was said that too many are broken
}

// throttle is a reading of a counter.
type throttle struct {
	total time.Duration
	at    time.Time
}

// newWatchman is nil where nothing tells of the health of GPUs.
func newWatchman(s *scheduler, source telemetry.Source) *watchman {
	from, ok := source.(telemetry.HealthSource)
	if !ok {
		return nil
	}
	return &watchman{s: s, source: from, at: make(map[string]throttle), hot: make(map[string]time.Time)}
}

// run looks until ctx ends.
func (w *watchman) run(ctx context.Context) {
	for ctx.Err() == nil {
		w.look(ctx, time.Now())
		select {
		case <-ctx.Done():
		case <-time.After(w.wait()):
		}
	}
}

// wait is the time between two steps. A Prometheus answers for all nodes, and is asked once a round.
func (w *watchman) wait() time.Duration {
	if _, all := w.source.(*telemetry.Prometheus); all {
		return healthRound
	}
	return healthRound / healthTicks
}

// look reads the next nodes and says what is broken there.
func (w *watchman) look(ctx context.Context, now time.Time) {
	all := w.s.feed.NodesWhere(hasGPUs)
	nodes := w.next(all)
	if len(nodes) == 0 {
		return
	}
	got, err := w.source.Health(ctx, nodes)
	w.complain(ctx, err)
	by := make(map[string][]telemetry.GPU)
	for _, g := range got.GPUs {
		by[g.Node] = append(by[g.Node], g)
	}
	for _, n := range all {
		seen, read := got.Seen[n.Name]
		if !read && len(by[n.Name]) == 0 {
			continue // not known: what was said of it stands
		}
		w.say(ctx, n, w.judge(n, by[n.Name], seen, now), all)
	}
}

// next are the names of the nodes whose turn it is: those behind the last, and so around.
func (w *watchman) next(all []*corev1.Node) []string {
	if _, once := w.source.(*telemetry.Prometheus); once {
		return namesOf(all)
	}
	count := min(len(all), healthPages, (len(all)+healthTicks-1)/healthTicks)
	from, _ := slices.BinarySearchFunc(all, w.turn, func(n *corev1.Node, name string) int { return strings.Compare(n.Name, name) })
	if from < len(all) && all[from].Name == w.turn {
		from++
	}
	out := make([]string, 0, count)
	for i := range count {
		out = append(out, all[(from+i)%len(all)].Name)
	}
	if count > 0 {
		w.turn = out[count-1]
	}
	return out
}

func namesOf(all []*corev1.Node) []string {
	out := make([]string, len(all))
	for i, n := range all {
		out[i] = n.Name
	}
	return out
}

// hasGPUs says whether the node has GPUs of NVIDIA, as far as its labels or its device plugin tell.
func hasGPUs(n *corev1.Node) bool {
	if n.Labels["nvidia.com/gpu.present"] == "true" || n.Labels["nvidia.com/gpu.count"] != "" {
		return true
	}
	nvidia := func(name corev1.ResourceName) bool { return strings.HasPrefix(string(name), "nvidia.com/") }
	for _, list := range []corev1.ResourceList{n.Status.Capacity, n.Status.Allocatable} {
		if slices.ContainsFunc(slices.Collect(maps.Keys(list)), nvidia) {
			return true
		}
	}
	return false
}

// judge is what is broken on the node, after what was said before and what was read now. What was found broken stays so until it reads
// well: an error of a program does not mend a GPU, nor does it when there are no more metrics of it. Where there are metrics of as
// many GPUs as the node has, one without any is gone.
func (w *watchman) judge(n *corev1.Node, read []telemetry.GPU, seen int, now time.Time) []v1alpha1.UnhealthyGPU {
	var before []v1alpha1.UnhealthyGPU
	if json.Unmarshal([]byte(n.Annotations[v1alpha1.KeyUnhealthyGPUs]), &before) != nil {
		before = nil
	}
	found := make(map[string]v1alpha1.UnhealthyGPU)
	named := make(map[string]bool)
	for _, g := range read {
		named[g.UUID] = true
		at := slices.IndexFunc(before, func(b v1alpha1.UnhealthyGPU) bool { return b.UUID == g.UUID })
		why, since := w.sign(g, now), now.UTC().Format(time.RFC3339)
		if at >= 0 {
			if why == "" && g.Xid != 0 && strings.HasPrefix(before[at].Why, "Xid ") {
				why = before[at].Why
			}
			if before[at].Why == why {
				since = before[at].Since
			}
		}
		if why != "" {
			found[g.UUID] = v1alpha1.UnhealthyGPU{UUID: g.UUID, GPU: g.Index, Why: why, Since: since}
		}
	}
	has, err := strconv.Atoi(n.Labels["nvidia.com/gpu.count"])
	for _, b := range before {
		if !named[b.UUID] && (err != nil || seen < has) {
			found[b.UUID] = b
		}
	}
	out := make([]v1alpha1.UnhealthyGPU, 0, len(found))
	for _, uuid := range slices.Sorted(maps.Keys(found)) {
		out = append(out, found[uuid])
	}
	return out
}

// sign is what speaks against a GPU, "" for nothing.
func (w *watchman) sign(g telemetry.GPU, now time.Time) string {
	last, known := w.at[g.UUID]
	if g.Throttled > 0 {
		w.at[g.UUID] = throttle{g.Throttled, now}
	}
	if g.Hot || known && g.Throttled-last.total >= now.Sub(last.at)/2 && g.Throttled > last.total {
		w.hot[g.UUID] = now
	}
	switch {
	case g.Xid != 0 && !slices.Contains(applicationXids, g.Xid):
		return "Xid " + strconv.Itoa(g.Xid)
	case g.Uncorrected:
		return "uncorrectable ECC errors"
	case g.RemapFailed:
		return "a row of its memory could not be remapped"
	}
	if at, was := w.hot[g.UUID]; was && now.Sub(at) < coolFor {
		return "throttled by heat"
	}
	delete(w.hot, g.UUID)
	return ""
}

// say lists on the node what is broken there, where that is news. Where more than half of the nodes would be closed no more are: then it
// is more likely that the metrics are wrong, or the cooling of the room, and no work at all would run.
func (w *watchman) say(ctx context.Context, n *corev1.Node, broken []v1alpha1.UnhealthyGPU, all []*corev1.Node) {
	var value *string
	if len(broken) > 0 {
		text, err := json.Marshal(broken)
		if err != nil {
			return
		}
		v := string(text)
		value = &v
	}
	has, is := n.Annotations[v1alpha1.KeyUnhealthyGPUs]
	if value == nil && !is || value != nil && has == *value {
		return
	}
	if value != nil && !is && w.tooMany(all) {
		return
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": n.UID, "annotations": map[string]*string{v1alpha1.KeyUnhealthyGPUs: value}}})
	if err == nil {
		_, err = w.s.client.CoreV1().Nodes().Patch(ctx, n.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	}
	switch {
	case err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && ctx.Err() == nil:
		w.s.log.Warn("list broken GPUs", "node", n.Name, "err", clip(err.Error(), maxNote))
	case err == nil && value != nil:
		w.s.log.Warn("GPUs are broken", "node", n.Name, "gpus", clip(*value, maxNote))
	case err == nil:
		w.s.log.Info("GPUs are well again", "node", n.Name)
	}
}

// tooMany says whether half of the nodes list broken GPUs already, and says it in the log once.
func (w *watchman) tooMany(all []*corev1.Node) bool {
	listed := 0
	for _, n := range all {
		if now := w.s.feed.Node(n.Name); now != nil && now.Annotations[v1alpha1.KeyUnhealthyGPUs] != "" {
			listed++
		}
	}
	many := listed > 0 && 2*(listed+1) > len(all)
	if many && !w.most {
		w.s.log.Warn("more than half of the nodes have broken GPUs by their metrics: no more nodes are closed for it", "nodes", len(all))
	}
	w.most = many
	return many
}

// complain says what is wrong with the source, once.
func (w *watchman) complain(ctx context.Context, err error) {
	text := ""
	if err != nil {
		text = clip(err.Error(), maxNote)
	}
	if text == w.failed || ctx.Err() != nil {
		return
	}
	if w.failed = text; text != "" {
		w.s.log.Warn(fmt.Sprintf("health of GPUs: nodes without metrics stay as they are: %s", text))
	}
}
