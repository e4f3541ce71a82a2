package provisioner

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// editPool is a user who changes the NodePool.
func (x *stage) editPool(edit func(*nodePool)) {
	p := all[nodePool](x.server, "nodepools")[0]
	edit(&p)
	p.Generation++
	put(x.server, "nodepools", &p)
}

// again submits the pods anew that were evicted, as their controller does.
func (x *stage) again(gang string, pods int, gpus int64) {
	have := make(map[string]bool)
	for _, p := range podsOf(x.server) {
		have[p.Name] = true
	}
	for i := range pods {
		if name := fmt.Sprintf("%s-%d", gang, i); !have[name] {
			x.pod(name, "", gpus)
		}
	}
}

// until takes turns until done says so.
func (x *stage) until(what string, done func() bool) {
	x.t.Helper()
	for turn := 0; !done(); turn++ {
		if turn > 300 {
			for _, c := range x.claims() {
				x.t.Logf("%s %v deleted %v %+v", c.Name, c.Labels, c.DeletionTimestamp, c.Status.Conditions)
			}
			x.t.Fatalf("%s: not after %d turns: %d pods wait", what, turn, x.waiting())
		}
		x.turn(nil)
	}
}

func (c *nodeClaim) is(condition string) bool {
	return slices.ContainsFunc(c.Status.Conditions, func(o metav1.Condition) bool {
		return o.Type == condition && o.Status == metav1.ConditionTrue
	})
}

// count is how many claims there are of which say is true.
func (x *stage) count(say func(c *nodeClaim) bool) (n int) {
	for _, c := range x.claims() {
		if say(&c) {
			n++
		}
	}
	return n
}

func up(c *nodeClaim) bool { return c.DeletionTimestamp == nil && c.is(condInitialized) }

// replaced runs two pods on two nodes, has change make both drift, and holds that each node has its successor before it goes, one at a time.
func replaced(x *stage, reason, what string, change func(*nodePool)) {
	x.t.Helper()
	x.submit("train", 2)
	x.until(what, func() bool { return x.waiting() == 0 && x.count(up) == 2 })
	var old []string
	for _, c := range x.claims() {
		old = append(old, c.Name)
	}
	x.editPool(func(p *nodePool) {
		p.Spec.Disruption.Budgets = []budget{{Nodes: "1", Reasons: []string{becauseDrifted}}}
		change(p)
	})
	said := false
	x.until(what+": replaced", func() bool {
		x.again("train", 2, 8)
		said = said || x.count(func(c *nodeClaim) bool {
			i := slices.IndexFunc(c.Status.Conditions, func(o metav1.Condition) bool { return o.Type == condDrifted })
			return i >= 0 && c.Status.Conditions[i].Reason == reason
		}) > 0
		if n := x.count(up); n < 2 && x.kills == 0 {
			x.t.Fatalf("%s: %d nodes while one is replaced", what, n)
		}
		if n := x.count(func(c *nodeClaim) bool {
			return slices.Contains(old, c.Name) && (c.is(condDisruption) || c.DeletionTimestamp != nil) && !c.is(condTerminating)
		}); n > 1 {
			x.t.Fatalf("%s: %d nodes are disrupted at once", what, n)
		}
		return x.waiting() == 0 && x.count(func(c *nodeClaim) bool { return slices.Contains(old, c.Name) }) == 0 && x.count(func(*nodeClaim) bool { return true }) == 2
	})
	if !said {
		x.t.Errorf("%s: no claim was %s", what, reason)
	}
	for _, c := range x.claims() {
		if c.is(condDrifted) {
			x.t.Errorf("%s: the successor %s is Drifted", what, c.Name)
		}
	}
}

func drifting(t *testing.T) *stage {
	return newStage(t, Karpenter, map[string]int{"a": 4, "b": 4}, nil)
}

func labelled(p *nodePool) { p.Spec.Template.Metadata.Labels = map[string]string{"generation": "2"} }

func TestDrift(t *testing.T) {
	replaced(drifting(t), "NodePoolDrifted", "a label", labelled)
	replaced(drifting(t), "RequirementsDrifted", "another zone", func(p *nodePool) {
		for i := range p.Spec.Template.Spec.Requirements {
			if r := &p.Spec.Template.Spec.Requirements[i]; r.Key == corev1.LabelTopologyZone {
				r.Values = []string{"b"}
			}
		}
	})
}

// TestDriftKilled kills Karpenter at each of its writes while nodes are replaced: all are in the end, and no machine is left over.
func TestDriftKilled(t *testing.T) {
	everywhere(t, func(t *testing.T, x *stage, what string) {
		replaced(x, "NodePoolDrifted", what, labelled)
		x.run(nil, 4, what)
	}, drifting)
}

// TestHash is of all that nodes are made of, in any order, and not of requirements.
func TestHash(t *testing.T) {
	of := func(edit func(*nodePool)) string {
		p := &nodePool{}
		p.Spec.Template.Spec.Taints = []corev1.Taint{{Key: "a", Effect: "NoSchedule"}, {Key: "b", Effect: "NoSchedule"}}
		edit(p)
		return p.hash()
	}
	base := of(func(*nodePool) {})
	for what, c := range map[string]struct {
		edit func(*nodePool)
		same bool
	}{
		"order":        {func(p *nodePool) { slices.Reverse(p.Spec.Template.Spec.Taints) }, true},
		"requirements": {func(p *nodePool) { p.Spec.Template.Spec.Requirements = []corev1.NodeSelectorRequirement{{Key: "a"}} }, true},
		"budgets":      {func(p *nodePool) { p.Spec.Disruption.Budgets = []budget{{Nodes: "1"}} }, true},
		"taint":        {func(p *nodePool) { p.Spec.Template.Spec.Taints = nil }, false},
		"annotation":   {func(p *nodePool) { p.Spec.Template.Metadata.Annotations = map[string]string{"a": "b"} }, false},
		"expiry":       {func(p *nodePool) { p.Spec.Template.Spec.ExpireAfter = "1h" }, false},
	} {
		if got := of(c.edit) == base; got != c.same {
			t.Errorf("%s: the same hash: %t", what, got)
		}
	}
}

// TestStatic keeps a number of nodes without pods, lets empty ones go first, and replaces those that drift.
func TestStatic(t *testing.T) {
	x := newStage(t, Karpenter, map[string]int{"a": 4, "b": 4}, nil)
	size := func(n int64) {
		x.editPool(func(p *nodePool) { p.Spec.Replicas = &n })
		x.until(fmt.Sprint(n, " replicas"), func() bool {
			if have := x.count(func(c *nodeClaim) bool { return c.DeletionTimestamp == nil }); int64(have) > max(n, 3) {
				t.Fatalf("%d claims for %d replicas", have, n)
			}
			return int64(x.count(up)) == n && int64(len(x.claims())) == n
		})
	}
	size(2)
	size(3)
	var busy string
	for _, c := range x.claims() {
		busy = c.Name
	}
	x.pod("work-0", busy, 8)
	size(1)
	if list := x.claims(); list[0].Name != busy {
		t.Errorf("%s is left, and the work is on %s", list[0].Name, busy)
	}
	x.submit("more", 1)
	for range 10 {
		x.turn(nil)
	}
	if len(x.claims()) != 1 {
		t.Errorf("%d claims: a static NodePool makes none for pods", len(x.claims()))
	}
	x.end()
	x.editPool(func(p *nodePool) { labelled(p); p.Spec.Disruption.Budgets = []budget{{Nodes: "100%"}} })
	x.until("drift", func() bool {
		if x.count(up) < 1 {
			t.Fatal("no node while it is replaced")
		}
		list := x.claims()
		return len(list) == 1 && list[0].Name != busy && up(&list[0])
	})
}

// TestBudgetSchedule: a budget holds from each hit of its schedule for its duration, and one that cannot be read allows nothing.
func TestBudgetSchedule(t *testing.T) {
	at := func(text string) time.Time {
		tm, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return tm
	}
	const none = 1 << 40
	for _, c := range []struct {
		b    budget
		now  string
		want int
	}{
		{budget{Nodes: "2"}, "2026-11-19T12:00:00Z", 2},
		{budget{Nodes: "0", Schedule: "0 9 * * mon-fri", Duration: "8h"}, "2026-11-19T12:00:00Z", 0}, // a Thursday
		{budget{Nodes: "0", Schedule: "0 9 * * mon-fri", Duration: "8h"}, "2026-11-19T08:59:59Z", none},
		{budget{Nodes: "0", Schedule: "0 9 * * mon-fri", Duration: "8h"}, "2026-11-19T09:00:00Z", 0},
		{budget{Nodes: "0", Schedule: "0 9 * * mon-fri", Duration: "8h"}, "2026-11-19T17:00:01Z", none},
		{budget{Nodes: "0", Schedule: "0 9 * * mon-fri", Duration: "8h"}, "2026-11-21T12:00:00Z", none},
		{budget{Nodes: "0", Schedule: "0 9 * * mon-fri", Duration: "8h"}, "2026-11-19T07:30:00-05:00", 0}, // schedules are in UTC
		{budget{Nodes: "50%", Schedule: "@daily", Duration: "10m"}, "2026-11-19T00:05:00Z", 5},
		{budget{Nodes: "5", Schedule: "not one", Duration: "10m"}, "2026-11-19T00:05:00Z", 0},
	} {
		got := c.b.allows(10, at(c.now))
		if got > none {
			got = none
		}
		if got != c.want {
			t.Errorf("%+v at %s: %d, want %d", c.b, c.now, got, c.want)
		}
	}
}

// TestHealthCounts: two of the last four claims that became no node make a NodePool unhealthy, one does not, and a controller that starts
// takes over what was said.
func TestHealthCounts(t *testing.T) {
	for _, c := range []struct {
		last string
		want bool
	}{{"", false}, {"-", false}, {"--", true}, {"+-", false}, {"+-+-", true}, {"+++-", false}} {
		var last []bool
		for _, r := range c.last {
			last = append(last, r == '+')
		}
		if got := unhealthy(last); got != c.want {
			t.Errorf("%q: unhealthy is %t", c.last, got)
		}
	}
	x := newStage(t, Karpenter, map[string]int{"a": 4, "b": 4}, nil)
	says := func() string {
		for _, o := range all[nodePool](x.server, "nodepools")[0].Status.Conditions {
			if o.Type == condHealthy {
				return string(o.Status)
			}
		}
		return ""
	}
	x.turn(nil)
	if says() != "Unknown" {
		t.Errorf("at first it is %q", says())
	}
	x.submit("train", 1)
	x.until("a node", func() bool { return x.waiting() == 0 && says() == "True" })
	k := x.player.(*karpenter)
	tell := func(ok bool) {
		pools, c := all[nodePool](x.server, "nodepools"), x.claims()[0]
		if err := k.tellHealth(t.Context(), &world{now: x.now}, &c, pools, ok, "RegistrationFailed", "Failed to register node"); err != nil {
			t.Fatal(err)
		}
	}
	tell(false)
	if says() != "True" {
		t.Errorf("after one failure it is %s", says())
	}
	tell(false)
	if says() != "False" {
		t.Errorf("after two it is %s", says())
	}
	x.fresh()
	x.turn(nil)
	k = x.player.(*karpenter)
	tell(true)
	if says() != "False" {
		t.Errorf("a new controller forgot the failures: %s", says())
	}
	x.editPool(func(*nodePool) {})
	x.turn(nil)
	if says() != "Unknown" {
		t.Errorf("after a change it is %s", says())
	}
}

// TestConsolidate gives a node back whose work has room on another, and replaces one by a cheaper one, which is there before it goes.
func TestConsolidate(t *testing.T) {
	x := newStage(t, Karpenter, map[string]int{"a": 4, "b": 4}, nil)
	x.editPool(func(p *nodePool) { p.Spec.Disruption.ConsolidationPolicy = "WhenEmptyOrUnderutilized" })
	for i := range 3 {
		x.pod(fmt.Sprintf("train-%d", i), "", 4)
		x.pod(fmt.Sprintf("short-%d", i), "", 4)
	}
	x.until("three nodes", func() bool { return x.waiting() == 0 && x.count(up) == 3 })
	for i, c := range x.claims() { // one pod is left on each
		kept := false
		for _, p := range podsOf(x.server) {
			if p.Spec.NodeName == c.Name && kept {
				delete(x.objects, "pods/default/"+p.Name)
			} else if p.Spec.NodeName == c.Name {
				p.Name = fmt.Sprintf("kept-%d", i)
				for key := range x.objects {
					if metaOf(x.objects[key])["uid"] == string(p.UID) {
						delete(x.objects, key)
					}
				}
				put(x.server, "pods", &p)
				kept = true
			}
		}
	}
	made := 0
	x.seen = func(verb, key string) {
		if verb == "create" && key[:9] == "nodeclaim" {
			made++
		}
	}
	x.until("two nodes", func() bool {
		x.again("kept", 3, 4)
		return x.waiting() == 0 && len(x.claims()) == 2 && x.count(up) == 2
	})
	if made > 0 {
		t.Errorf("%d nodes were made to give one back", made)
	}
	x.end()
	x.until("nothing", func() bool { return len(x.claims()) == 0 })

	x = newStage(t, Karpenter, map[string]int{"a": 4, "b": 4}, func(p *v1alpha1.Pool) {
		p.Spec.Launch.From = []v1alpha1.CapacityType{v1alpha1.CapacitySpot, v1alpha1.CapacityOnDemand}
	})
	from := func(paid ...string) {
		x.editPool(func(p *nodePool) {
			p.Spec.Disruption.ConsolidationPolicy = "WhenEmptyOrUnderutilized"
			for i := range p.Spec.Template.Spec.Requirements {
				if r := &p.Spec.Template.Spec.Requirements[i]; r.Key == capacityTypeLabel {
					r.Values = paid
				}
			}
		})
	}
	from("on-demand")
	x.submit("train", 1)
	x.until("on demand", func() bool { return x.waiting() == 0 && x.count(up) == 1 })
	from("spot", "on-demand")
	x.until("spot", func() bool {
		x.again("train", 1, 8)
		if x.count(up) < 1 {
			t.Fatal("it went before the cheaper one came")
		}
		list := x.claims()
		return x.waiting() == 0 && len(list) == 1 && list[0].Labels[capacityTypeLabel] == "spot" && up(&list[0])
	})
	name := x.claims()[0].Name
	for range 30 {
		x.turn(nil)
	}
	if list := x.claims(); len(list) != 1 || list[0].Name != name {
		t.Errorf("spot is replaced by spot: %v", list)
	}
}
