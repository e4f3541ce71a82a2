package answer

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-dev/berth/engine/why"
)

// Whatever a workload's answer holds, names of namespaces and nodes that the viewer may not read are not in it, and
// no count changes.
func TestHiddenNamesAreNowhereInTheAnswer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, mine := anyWorkload(t), rapid.Bool().Draw(t, "may list nodes")
		before := asJSON(t, w)
		named, gpus := len(w.Position.Ahead)+w.Position.Others, amountOf(w.Holders)
		shown := w
		view{nodes: mine, pods: func(namespace string) bool { return namespace == "mine" }}.hide(&shown)
		text := asJSON(t, shown)
		if strings.Contains(text, "theirs") {
			t.Fatalf("another's name in %s", text)
		}
		if !mine && strings.Contains(text, "secret-node") {
			t.Fatalf("a node's name in %s", text)
		}
		if got := len(shown.Position.Ahead) + shown.Position.Others; got != named {
			t.Fatalf("%d ahead, were %d", got, named)
		}
		if got := amountOf(shown.Holders); got != gpus {
			t.Fatalf("%d held, were %d", got, gpus)
		}
		if after := asJSON(t, w); after != before {
			t.Fatalf("hiding wrote to what is shared:\n%s\n%s", before, after)
		}
	})
}

func TestWordsWithoutNames(t *testing.T) {
	v := view{pods: func(namespace string) bool { return namespace == "mine" }}
	for text, want := range map[string]string{
		"waits for theirs/gang/b to end":        "waits for another workload to end",
		"waits for mine/gang/a to end":          "waits for mine/gang/a to end",
		"needs 4 nvidia.com/gpu of queue q":     "needs 4 nvidia.com/gpu of queue q",
		"no running workload has a known end":   "no running workload has a known end",
		"waits behind theirs/pod, mine/gang/a.": "waits behind another workload mine/gang/a.",
	} {
		if got := v.words(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

func amountOf(h *Holders) int64 {
	sum := h.Others.Amount
	for _, i := range h.Items {
		sum += i.Amount
	}
	return sum
}

func asJSON(t *rapid.T, value any) string {
	b, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func anyWorkload(t *rapid.T) Workload {
	pick := func(label string, words ...string) string { return rapid.SampledFrom(words).Draw(t, label) }
	number := func(label string) int { return rapid.IntRange(0, 30).Draw(t, label) }
	reference := func() Reference {
		namespace := pick("namespace", "mine", "theirs")
		return Reference{Namespace: namespace, Name: Named("gang", namespace+"-job"), Owner: &Owner{"Job", namespace + "-job"}}
	}
	w := Workload{Position: &Position{}, Holders: &Holders{Resource: "nvidia.com/gpu"}}
	for range number("ahead") {
		w.Position.Ahead = append(w.Position.Ahead, reference())
	}
	for range number("holders") {
		w.Holders.Items = append(w.Holders.Items, Holder{reference(), int64(number("amount"))})
	}
	cert := why.Certificate{Need: 1 + number("need"), Level: pick("level", "", "rack", "node")}
	for i := range number("domains") / 5 {
		d := why.Domain{Fits: int64(number("fits"))}
		if cert.Level != "" {
			d.Name = fmt.Sprint(pick("domain", "", "secret-node-"), i)
		}
		d.Rows = []why.Row{{Nodes: number("nodes"), Example: "secret-node-x", Removed: []why.Clause{
			{Kind: why.ByWholeNode, Detail: pick("spoiler", "mine/gang/a", "theirs/gang/b"), Nodes: 1},
			{Kind: why.ByRefusal, Detail: pick("refusal", "no", "secret-node-3 is full"), Nodes: 1},
		}}}
		cert.Domains = append(cert.Domains, d)
		if rapid.Bool().Draw(t, "pinned") {
			cert.Pinned = d.Name
		}
	}
	w.Certificates = []why.Certificate{cert}
	w.Gates = []why.Gate{{Cause: why.TopologyFragmented, Object: cert.Level}}
	for _, cause := range []why.Cause{why.KeptForPromise, why.BehindTheHead} {
		if rapid.Bool().Draw(t, string(cause)) {
			w.Gates = append(w.Gates, why.Gate{Cause: cause, Object: pick("before it", "mine/gang/a", "theirs/gang/b"), Certificate: -1})
		}
	}
	if rapid.Bool().Draw(t, "expected") {
		w.ETA = &ETA{Because: pick("because", "waits for mine/gang/a to end", "waits for theirs/gang/b to end", "needs 4 nvidia.com/gpu", "its queue may not use more until theirs/pod ends")}
	}
	if rapid.Bool().Draw(t, "evicting") {
		r := reference()
		w.Evicting = &Evicting{Pods: 1, Cause: "reclaimed", For: &r}
	}
	return w
}
