package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/answer"
)

func queueNamed(name, parent string, change func(*answer.Queue)) answer.Queue {
	q := answer.Queue{ObjectMeta: metav1.ObjectMeta{Name: name}, Parent: parent}
	if change != nil {
		change(&q)
	}
	return q
}

func someOf(resource string, n int64) []why.Amount {
	return []why.Amount{{Resource: resource, Value: n}}
}

func gpuAmount(n int64) []why.Amount { return someOf("nvidia.com/gpu", n) }

// someQueues is a tree of 32 GPUs, and what can be wrong with queues.
func someQueues() []answer.Queue {
	return []answer.Queue{
		queueNamed("lab", "", func(q *answer.Queue) {
			q.Quota, q.Used, q.Wanted, q.Share = gpuAmount(16), gpuAmount(20), gpuAmount(12), gpuAmount(20)
			q.Borrowed, q.Running, q.Waiting, q.GPUSeconds = gpuAmount(4), answer.Demand{Workloads: 5, GPUs: 20}, answer.Demand{Workloads: 3, GPUs: 12}, 1800_000
			q.Warnings = []string{"the queues below it are promised 24 of nvidia.com/gpu, and it has 16"}
		}),
		queueNamed("research", "lab", func(q *answer.Queue) {
			q.Quota = append(gpuAmount(8), why.Amount{Resource: "cpu", Value: 64000})
			q.Limits, q.Used, q.Borrowed = gpuAmount(24), gpuAmount(18), gpuAmount(10)
			q.Wanted, q.Share, q.Weight = gpuAmount(12), gpuAmount(14), 3
			q.Running, q.Waiting, q.GPUSeconds = answer.Demand{Workloads: 4, GPUs: 18}, answer.Demand{Workloads: 3, GPUs: 12}, 450_000
			q.Budgets = []answer.Budget{{Resource: "nvidia.com/gpu", Seconds: 360_000, Spent: 45_000, PeriodSeconds: 7 * 86400}, {Resource: "cpu", Seconds: 3_600_000, Spent: 3_600_000, PeriodSeconds: 86400}}
		}),
		queueNamed("research-night", "research", func(q *answer.Queue) { q.Used, q.Share = gpuAmount(2), gpuAmount(2) }),
		queueNamed("vision", "lab", func(q *answer.Queue) {
			q.Quota, q.Used, q.Lent, q.Share, q.Weight = gpuAmount(16), gpuAmount(2), gpuAmount(6), gpuAmount(6), 1
		}),
		queueNamed("shop", "", func(q *answer.Queue) { q.Quota, q.Lent = gpuAmount(16), gpuAmount(4) }),
		queueNamed("stray", "nowhere", func(q *answer.Queue) { q.Problem = "parent: there is no queue nowhere" }),
		queueNamed("lost", "", func(q *answer.Queue) { q.Missing, q.Waiting = true, answer.Demand{Workloads: 1, GPUs: 8} }),
	}
}

func TestTheTreeOfQueues(t *testing.T) {
	for _, wide := range []bool{false, true} {
		var got strings.Builder
		if err := printQueues(&got, someQueues(), queueTable{wide: wide}); err != nil {
			t.Fatal(err)
		}
		golden(t, fmt.Sprintf("queues-wide-%t.txt", wide), got.String())
	}
}

// Queues that say nothing are not given a column for it, and what is not known is not 0.
func TestPlainQueues(t *testing.T) {
	var got strings.Builder
	if err := printQueues(&got, []answer.Queue{queueNamed("a", "", nil)}, queueTable{}); err != nil {
		t.Fatal(err)
	}
	want := `NAME   QUOTA   USED   BORROWED   LENT   WAITING   SHARE   GPU-HOURS   BUDGET
a      -       0      -          -      0         -       0           -
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Error(diff)
	}
}

// Every queue is shown once, below its parent, whatever the parents are and however they are ordered.
func TestEveryQueueIsInTheTreeOnce(t *testing.T) {
	for _, c := range []struct{ parents, want string }{
		{"a b:a c:b", "a.b..c"},
		{"c:b b:a a", "a.b..c"},
		{"a:b b:a c:a", "a.b.c"}, // a circle that nobody named
		{"a:x b:a", "a.b"},       // of a namespace that does not see x
		{"a:a", "a"},
	} {
		var items []answer.Queue
		for _, word := range strings.Fields(c.parents) {
			name, parent, _ := strings.Cut(word, ":")
			items = append(items, queueNamed(name, parent, nil))
		}
		got := ""
		for _, q := range inTree(items) {
			got += strings.Repeat(".", q.depth) + q.Name
		}
		if got != c.want {
			t.Errorf("%s: got %s, want %s", c.parents, got, c.want)
		}
	}
}

// One queue: its part of the tree, what the figures mean, and the line of it and of those below it.
func TestOneQueue(t *testing.T) {
	t.Setenv("BERTH_HOME", t.TempDir())
	other, night := runningJob(), evictedJob()
	other.Queue, night.Queue = "vision", "research-night"
	night.Evicting = nil
	path := apiServer(t, map[string]any{
		answers + "/queues":    answer.QueueList{Items: someQueues()},
		answers + "/workloads": answer.WorkloadList{Items: []answer.Workload{promisedJob(), waitingJob(), night, other}},
	})
	code, stdout, stderr := run(t, "queue", "research", "--kubeconfig", path)
	if code != exitOK || stderr != "" {
		t.Fatalf("code %d, %s", code, stderr)
	}
	for _, word := range []string{
		"NAME               QUOTA", "research           8 ", "  research-night   - ",
		"Its fair share is 14 GPUs: 8 of its quota of 8, and 6 of the 6 that are over among the queues of lab that ask for more, by weight 3 of 3. It asks for 30: it uses 18, and 12 are waited for.\n",
		"10 GPUs are beyond its quota: their owners get them back when they ask.\n",
		"Budget: used 12.5 of 100 nvidia.com/gpu-hours in this period of 7d.\n",
		"Budget: used 1 of 1 cpu-hours in this period of 24h; nothing starts before the next.\n",
		"pod/x", "job/second", "job/guest",
	} {
		if !strings.Contains(stdout, word) {
			t.Errorf("no %q in:\n%s", word, stdout)
		}
	}
	for _, word := range []string{"vision", "shop", "job/first "} {
		if strings.Contains(stdout, word) {
			t.Errorf("%q in:\n%s", word, stdout)
		}
	}
}

func TestHowAShareComesAbout(t *testing.T) {
	items := someQueues()
	for name, want := range map[string]string{
		"lab":            "Its fair share is 20 GPUs: 16 of its quota of 16, and 4 of the 4 that are over among the queues at the top that ask for more, by weight 1 of 1. It asks for 32: it uses 20, and 12 are waited for.",
		"vision":         "Its fair share is 6 GPUs: 6 of its quota of 16. It asks for 2: it uses 2, and 0 are waited for.",
		"research-night": "Its fair share is 2 GPUs: 2 of the 2 that are over among the queues of research that ask for more, by weight 1 of 1. It asks for 2: it uses 2, and 0 are waited for.",
		"shop":           "Its fair share is 0 GPUs: 0 of its quota of 16. It asks for 0: it uses 0, and 0 are waited for.",
	} {
		for i := range items {
			if q := &items[i]; q.Name == name {
				if got := shareWords(q, siblings(q, items)); got != want {
					t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
				}
			}
		}
	}
	if got := shareWords(&answer.Queue{}, []*answer.Queue{{}}); got != "" {
		t.Errorf("nothing is known, and it says %q", got)
	}
}

func TestHours(t *testing.T) {
	for seconds, want := range map[int64]string{0: "0", 1: "0", 180: "0.1", 360: "0.1", 3600: "1", 5400: "1.5", 3600 * 99: "99", 3600*99 + 1800: "99.5", 3600*100 + 1800: "101", 3600 * 12345: "12345"} {
		if got := hours(seconds); got != want {
			t.Errorf("%d s: %q, want %q", seconds, got, want)
		}
	}
}
