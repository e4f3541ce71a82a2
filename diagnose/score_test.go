package diagnose_test

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose"
	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/engine/why"
)

// score counts right answers by what was asked.
type score struct {
	of, right map[string]int
}

func newScore() *score { return &score{of: map[string]int{}, right: map[string]int{}} }

var scored = []string{"layer", "cause", "owner", "fix"}

func (s *score) add(c *testCase, got diagnose.Diagnosis) {
	wrong := strings.Join(c.wrong(got), "\n")
	for _, what := range scored {
		if what == "fix" && c.Fix == "" {
			continue
		}
		s.of[what]++
		if !regexp.MustCompile(`(?m)^` + what + ` is`).MatchString(wrong) {
			s.right[what]++
		}
	}
}

func (s *score) percent(what string) float64 {
	return 100 * float64(s.right[what]) / float64(max(1, s.of[what]))
}

func (s *score) String() string {
	var words []string
	for _, what := range scored {
		words = append(words, fmt.Sprintf("%s %5.1f %%", what, s.percent(what)))
	}
	return strings.Join(words, "   ")
}

// TestScore scores the diagnosis on a corpus drawn anew, beside what the event text alone and a majority of its
// reasons would have said.
func TestScore(t *testing.T) {
	const bar = 95
	ours, text, majority := newScore(), newScore(), newScore()
	names := caseNames(t)
	drawn := cmp.Or(*seed, uint64(time.Now().UnixNano()))
	for _, name := range names {
		c := loadCase(t, name, drawn)
		got := c.diagnose(t)
		ours.add(&c, got)
		text.add(&c, guess(&c, firstReason))
		majority.add(&c, guess(&c, mostReason))
		if wrong := c.wrong(got); len(wrong) > 0 {
			t.Logf("%s (Kubernetes %s): %s", name, c.facts.Kubernetes, strings.Join(wrong, "; "))
		}
	}
	fmt.Printf("diagnosis of %d cases, seed %d\n", len(names), drawn)
	for _, row := range []struct {
		who string
		*score
	}{{"berth why", ours}, {"event text", text}, {"majority of reasons", majority}} {
		fmt.Printf("  %-20s %s\n", row.who, row.score)
	}
	for _, what := range scored {
		if p := ours.percent(what); p < bar {
			t.Errorf("%s: %.1f %% are right, want %d", what, p, bar)
		}
	}
}

// TestEveryCheckIsNeeded deletes one check after the other: a case of its own must then go wrong.
func TestEveryCheckIsNeeded(t *testing.T) {
	cases := make(map[string][]testCase)
	for _, name := range caseNames(t) {
		cause := path.Dir(name)
		cases[cause] = append(cases[cause], loadCase(t, name, 1))
	}
	for _, check := range diagnose.Checks() {
		wrong := false
		for _, c := range cases[string(check.Cause)] {
			wrong = wrong || len(c.wrong(c.diagnoseWithout(t, check.Cause))) > 0
		}
		if !wrong {
			t.Errorf("without the check %s none of the %d cases in testdata/cases/%s goes wrong", check.Cause, len(cases[string(check.Cause)]), check.Cause)
		}
	}
}

// TestEveryCauseHasItsNeighbours holds the corpus to its own rule: a case, a healthy twin and a neighbour for each.
func TestEveryCauseHasItsNeighbours(t *testing.T) {
	files := make(map[string][]string)
	for _, name := range caseNames(t) {
		files[path.Dir(name)] = append(files[path.Dir(name)], path.Base(name))
	}
	for _, check := range diagnose.Checks() {
		own, healthy, neighbour := 0, 0, 0
		for _, f := range files[string(check.Cause)] {
			switch {
			case strings.HasPrefix(f, "healthy"):
				healthy++
			case strings.HasPrefix(f, "neighbour-"):
				neighbour++
			default:
				own++
			}
		}
		if own == 0 || healthy == 0 || neighbour == 0 {
			t.Errorf("testdata/cases/%s has %d cases, %d healthy twins and %d neighbours, want one of each at least", check.Cause, own, healthy, neighbour)
		}
	}
}

// guess answers as tools do that read the event text and nothing else.
func guess(c *testCase, choose func(text string) string) diagnose.Diagnosis {
	text := lastWords(c)
	reason := choose(text)
	d := diagnose.Diagnosis{State: facts.State(c.State), Layer: check.None, Owner: check.Nobody, Cause: diagnose.Healthy}
	for _, w := range words {
		if !regexp.MustCompile(w.text).MatchString(reason) {
			continue
		}
		for _, check := range diagnose.Checks() {
			if check.Cause == w.cause {
				d.Layer, d.Cause, d.Owner = check.Layer, check.Cause, check.Owner
				return d
			}
		}
	}
	return d
}

// lastWords is the newest event about the target, its pods or what made them; else the pod's condition.
func lastWords(c *testCase) string {
	_, name, _ := strings.Cut(c.Target, "/")
	var newest *corev1.Event
	for _, e := range c.facts.Events {
		if e.InvolvedObject.Namespace != c.Namespace || !strings.HasPrefix(e.InvolvedObject.Name, name) {
			continue
		}
		if newest == nil || facts.EventTime(e).After(facts.EventTime(newest)) {
			newest = e
		}
	}
	if newest != nil {
		return newest.Reason + ": " + newest.Message
	}
	for _, p := range c.facts.Pods {
		if p.Namespace != c.Namespace || !strings.HasPrefix(p.Name, name) {
			continue
		}
		for _, s := range p.Status.ContainerStatuses {
			if s.State.Waiting != nil {
				return s.State.Waiting.Reason + ": " + s.State.Waiting.Message
			}
		}
		for _, k := range p.Status.Conditions {
			if k.Type == corev1.PodScheduled && k.Status == corev1.ConditionFalse {
				return k.Reason + ": " + k.Message
			}
		}
	}
	return ""
}

// words is what the usual reading of a text is. The first that matches counts.
var words = []struct {
	text  string
	cause why.Cause
}{
	{`exceeded quota`, "quota-exceeded"}, {`maximum .* usage per`, "limit-range"}, {`failed calling webhook`, "webhook-down"},
	{`denied the request|denied request|violates PodSecurity`, "admission-denied"}, {`must be equal to|Limit must be set|must be an integer|standard resource`, "gpu-request-invalid"},
	{`non-empty scheduling gates`, "kueue-gated"}, {`BackoffLimitExceeded`, "job-gave-up"}, {`Suspended`, "job-suspended"},
	{`unbound immediate|persistentvolumeclaim .* not found|ProvisioningFailed`, "volume-unbound"}, {`ReadWriteOncePod|max volume count|CSI driver`, "volume-limit"},
	{`device class .* does not exist`, "dra-class-missing"}, {`cannot allocate all claims`, "dra-selector-matches-nothing"},
	{`anti-affinity`, "anti-affinity-exhausted"}, {`pod affinity rules`, "affinity-target-missing"}, {`topology spread`, "spread-unsatisfiable"},
	{`untolerated taint`, "gpu-taint-not-tolerated"}, {`node affinity/selector`, "no-such-pool"}, {`were unschedulable`, "node-cordoned"},
	{`requested node name|free ports`, "pinned-to-node-or-port"}, {`minCount|waiting for minCount`, "gang-incomplete"},
	{`Insufficient nvidia`, "cluster-full"}, {`Insufficient (cpu|memory)`, "cpu-or-memory-stranded"}, {`no nodes available`, "no-matching-node"},
	{`max node group size|exceed limits`, "pool-at-max"}, {`InsufficientCapacity|in backoff`, "cloud-stockout"}, {`incompatible requirements`, "no-compatible-pool"},
	{`ErrImagePull|ImagePullBackOff|InvalidImageName`, "image-pull"}, {`no runtime for`, "runtime-handler-missing"}, {`unsatisfied condition: cuda`, "cuda-newer-than-driver"},
	{`TopologyAffinityError`, "numa-misfit"}, {`FailedPrepareDynamicResources`, "claim-prepare-failed"}, {`FailedMount|FailedAttachVolume`, "volume-mount-failed"},
	{`CrashLoopBackOff|BackOff`, "crash-loop"}, {`SchedulerError`, "scheduler-error"}, {`WaitingForQuota|unused quota`, "waiting-for-quota"},
	{`doesn't exist`, "queue-missing"}, {`over quota`, "non-preemptible-over-quota"}, {`allowable limit`, "over-queue-limit"},
}

// firstReason is the text as it stands: of a list of reasons, the first is read.
func firstReason(text string) string {
	head, rest, ok := strings.Cut(text, "nodes are available: ")
	if !ok {
		return text
	}
	reason, _, _ := strings.Cut(rest, ", ")
	return head + reason
}

// mostReason is the reason that most nodes give.
func mostReason(text string) string {
	_, rest, ok := strings.Cut(text, "nodes are available: ")
	if !ok {
		return text
	}
	rest, _, _ = strings.Cut(rest, "preemption:")
	type count struct {
		n    int
		text string
	}
	var all []count
	for _, part := range strings.Split(rest, ", ") {
		number, reason, _ := strings.Cut(strings.TrimSpace(part), " ")
		n, err := strconv.Atoi(number)
		if err != nil {
			n, reason = 0, part
		}
		all = append(all, count{n, reason})
	}
	return slices.MaxFunc(all, func(a, b count) int { return cmp.Compare(a.n, b.n) }).text
}
