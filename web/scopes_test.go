package web

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-dev/berth/kube/answer"
)

func rightsIn(namespace string) answer.Rights {
	return answer.Rights{Namespace: namespace, Workloads: true, Queues: true}
}

// TestScopes has somebody with rights in many namespaces open the page of each. There is a table for everybody else all the same.
func TestScopes(t *testing.T) {
	s, now := newScopes(4), time.Now()
	take := func(person, namespace string) error {
		_, _, err := s.take(rightsIn(namespace), person, now)
		return err
	}
	for i := range 4 {
		if err := take("many", fmt.Sprint("team-", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := take("many", "team-4"); !errors.As(err, new(fullError)) {
		t.Errorf("a fifth: %v", err)
	}
	if err := take("ann", "team-0"); err != nil || len(s.held) != 4 {
		t.Errorf("one with the same rights as somebody: %v", err)
	}
	if err := take("bob", "team-5"); err != nil || s.held[rightsIn("team-3")] != nil {
		t.Errorf("another one: %v, %d tables", err, len(s.held))
	}
	if err := take("many", "team-3"); err == nil {
		t.Error("the table was taken back")
	}
	if err := take("cyd", "team-6"); err != nil || s.held[rightsIn("team-0")] == nil {
		t.Errorf("a third one: %v; what two read is nobody's to lose", err)
	}
	if err := take("dan", "team-7"); err == nil {
		t.Error("everybody has one, and somebody lost theirs")
	}
	now = now.Add(scopeIdle + time.Second)
	if err := take("dan", "team-7"); err != nil {
		t.Errorf("nobody reads any more: %v", err)
	}
}

// TestScopesAreFair draws people who come with any rights: there are never more tables than there may be, and nobody is refused while another
// person has two more to themselves.
func TestScopesAreFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, now := newScopes(rapid.IntRange(1, 8).Draw(t, "most")), time.Now()
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 20).Draw(t, "later")) * time.Second)
			person := fmt.Sprint(rapid.IntRange(0, 4).Draw(t, "person"))
			c, _, err := s.take(rightsIn(fmt.Sprint(rapid.IntRange(0, 12).Draw(t, "namespace"))), person, now)
			if len(s.held) > s.most {
				t.Fatalf("%d tables of %d", len(s.held), s.most)
			}
			alone := make(map[string]int)
			for _, c := range s.held {
				for who := range c.readers {
					if len(c.readers) == 1 {
						alone[who]++
					}
				}
			}
			if _, n := largest(alone); err != nil && n >= alone[person]+2 {
				t.Fatalf("%s is refused, and one has %d", person, n)
			}
			if err == nil && s.held[c.rights] != c {
				t.Fatal("the table that was given is not kept up to date")
			}
		}
	})
}

// TestRightsTakenAway takes rights from people while they look. What they may not see any more goes from their page, and who may not have the
// page at all is sent nothing more, within half a minute and a beat; questions are refused sooner.
func TestRightsTakenAway(t *testing.T) {
	if testing.Short() {
		t.Skip("rights are looked at again every 20 s")
	}
	a := newAPIServer(t)
	a.fill(16)
	h := newHouse(t, a, research())
	h.let("operator", "get pages team-0", "list workloads team-0", "list queues team-0", "list pods team-0", "list nodes *")
	h.tenant()
	operator, tenant := view(t, h.get("operator", "team-0", "api/stream").Body), view(t, h.get("tenant", "team-0", "api/stream").Body)
	operator.until("nodes", func() bool { return len(operator.values[kindNode]) == 16 })
	tenant.until("work", func() bool { return len(tenant.values[kindWorkload]) > 0 })
	h.tenant()
	began := time.Now()
	h.let("operator", "get pages team-0", "list workloads team-0", "list queues team-0", "list pods team-0")
	h.let("tenant")
	ended := make(chan time.Duration, 1)
	go func() {
		for tenant.lines.Scan() { // to the end
		}
		ended <- time.Since(began)
	}()
	for len(operator.values[kindNode]) > 0 && operator.lines.Scan() {
		if data, ok := strings.CutPrefix(operator.lines.Text(), "data: {"); ok {
			operator.take("{" + data)
		}
	}
	const most = 36 * time.Second
	if took := time.Since(began); len(operator.values[kindNode]) > 0 || took > most {
		t.Errorf("nodes are shown %s after the right to list them was taken away", took)
	}
	if took := <-ended; took > most {
		t.Errorf("the page goes on for %s after the right to it was taken away", took)
	}
	for _, path := range []string{"", "api/table", "api/why?name=llama", "api/stream"} {
		if code, _ := h.read("tenant", "team-0", path); code != http.StatusForbidden {
			t.Errorf("%s without rights: %d", path, code)
		}
	}
}

// TestStreamIsBegunAnew ends a stream after its time: whose token it was may be nobody's by then. Who comes back is sent what changed alone.
func TestStreamIsBegunAnew(t *testing.T) {
	a := newAPIServer(t)
	a.fill(16)
	h := newHouse(t, a, research())
	h.page.o.life = time.Second
	h.admin()
	v := view(t, h.get("admin", "", "api/stream").Body)
	v.until("the fleet", func() bool { return len(v.values[kindNode]) == 16 })
	told := ""
	for v.lines.Scan() {
		if line := v.lines.Text(); strings.HasPrefix(line, "event: ") {
			told = line
		}
	}
	if told != "event: again" {
		t.Errorf("the last word was %s", told)
	}

	b := browse(t, 1000, 700)
	b.Before(`(() => { const fetched = window.fetch; window.stale = 0; window.asked = [];
		window.fetch = (at, o) => { if (String(at).includes("stream")) window.asked.push(String(at)); return fetched(at, o) };
		setInterval(() => { if (document.querySelector("#age")?.className === "stale" && window.asked.length > 1) window.stale++ }, 20) })()`)
	b.Navigate(h.front("admin") + answer.PagePath(""))
	b.Until(`window.asked.length > 4 && document.querySelector(".sum")?.innerText.startsWith("128 GPUs")`)
	if n := b.Number(`window.stale`); n > 0 {
		t.Errorf("the page said %v times that it was not live", n)
	}
	if got := b.Text(`window.asked.slice(2).filter((a) => !/since=\d+&of=/.test(a)).join(" ")`); got != "" {
		t.Errorf("the whole is asked for again: %s", got)
	}
	a.put("pods", gpuPod("team-0", "arrives", "gpu-0004", 8))
	b.Do(`const s = document.querySelector("input[type=search]"); s.value = "arrives"; s.dispatchEvent(new Event("input"))`)
	b.Until(`document.querySelector(".sum").innerText.startsWith("8 GPUs match on 1 node")`)
}

// TestScopeIsLost has the tables full of one person's. Who loses one is told why, and the newcomer is shown their own.
func TestScopeIsLost(t *testing.T) {
	a := newAPIServer(t)
	a.fill(4)
	h := newHouse(t, a, research())
	rights := []string{}
	for i := range mostScopes {
		n := fmt.Sprint(" team-", i)
		rights = append(rights, "get pages"+n, "list workloads"+n, "list queues"+n)
	}
	h.let("many", rights...)
	h.tenant()
	streams := make([]*viewer, mostScopes)
	for i := range streams {
		streams[i] = view(t, h.get("many", fmt.Sprint("team-", i), "api/stream").Body)
		streams[i].until("the line", func() bool { return len(streams[i].values[kindTotal]) > 0 })
	}
	tenant := view(t, h.get("tenant", "team-0", "api/stream").Body)
	tenant.until("their own work", func() bool { return len(tenant.values[kindWorkload]) > 0 })
	for last := streams[mostScopes-1]; last.lines.Scan(); {
		if last.lines.Text() == "event: sorry" && last.lines.Scan() && strings.Contains(last.lines.Text(), "64 different sets of rights") {
			return
		}
	}
	t.Error("nobody was told that they lost a table")
}
