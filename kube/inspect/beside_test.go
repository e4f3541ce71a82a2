package inspect

import (
	"bufio"
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/diagnose/facts"
)

func approval(namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{
		"spec":   map[string]any{"podRef": map[string]any{"name": "train"}, "token": "ghp_0123456789abcdefghijklmnopqrstuvwxyz"},
		"status": map[string]any{"conditions": []any{map[string]any{"type": "Approved", "status": "False", "reason": "Rejected", "message": "no budget"}}},
	}}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: "board.corp.test", Version: "v1alpha3", Kind: "Approval"})
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

// Kinds that no table has are read, and go through a bundle; a secret in one does not.
func TestReadsKindsBesideTheTable(t *testing.T) {
	k := facts.FoundAs(schema.GroupVersionKind{Group: "board.corp.test", Version: "v1alpha3", Kind: "Approval"}, "approvals", true)
	w := &world{t: t, beside: []*facts.KindInfo{k}}
	w.add(pod("team-a", "train"))
	k.Add(&w.facts, approval("team-a", "train"))
	f := gather(t, Options{Config: w.start(), Namespace: "team-a"})
	if got := f.Foreign["Approval.board.corp.test"]; len(got) != 1 {
		t.Fatalf("read %d Approvals, want 1; unseen: %v", len(got), f.Unseen)
	}
	var b bytes.Buffer
	if _, err := Write(&b, f, BundleOptions{}); err != nil {
		t.Fatal(err)
	}
	back, err := readFrom(bufio.NewReader(&b), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	got := back.Facts.Foreign["Approval.board.corp.test"]
	if len(got) != 1 {
		t.Fatalf("the bundle has %d Approvals, want 1", len(got))
	}
	if c := facts.ConditionsOf(got[0]); len(c) != 1 || !c[0].Bad() || c[0].Reason != "Rejected" {
		t.Errorf("the bundle's condition is %+v", c)
	}
	text, _ := got[0].MarshalJSON()
	if strings.Contains(string(text), "ghp_") {
		t.Errorf("the bundle has the token: %s", text)
	}
}

// A kind beside the table that does not answer costs two seconds, and is unseen.
func TestKindsBesideTheTableHaveABudget(t *testing.T) {
	k := facts.FoundAs(schema.GroupVersionKind{Group: "board.corp.test", Version: "v1alpha3", Kind: "Approval"}, "approvals", true)
	w := &world{t: t, beside: []*facts.KindInfo{k}}
	w.say = func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/approvals") {
			<-r.Context().Done()
			return true
		}
		return false
	}
	begun := time.Now()
	f := gather(t, Options{Config: w.start()})
	if took := time.Since(begun); took > 2*besideFor {
		t.Errorf("took %s", took)
	}
	if !slices.ContainsFunc(f.Unseen, func(u facts.Unseen) bool { return u.Resource == "approvals.board.corp.test" }) {
		t.Errorf("unseen are %v", f.Unseen)
	}
}

// A kind beside the table with more objects than an answer has is read to its end; where there is no time for that, what was
// read counts, and the rest is unseen.
func TestKindsBesideTheTableAreReadToTheirEnd(t *testing.T) {
	k := facts.FoundAs(schema.GroupVersionKind{Group: "board.corp.test", Version: "v1alpha3", Kind: "Approval"}, "approvals", true)
	for _, slow := range []bool{false, true} {
		w := &world{t: t, beside: []*facts.KindInfo{k}}
		for i := range pageSize + 20 {
			k.Add(&w.facts, approval("team-a", fmt.Sprintf("train-%04d", i)))
		}
		w.say = func(_ http.ResponseWriter, r *http.Request) bool {
			if slow && r.URL.Query().Get("continue") != "" {
				<-r.Context().Done()
				return true
			}
			return false
		}
		f := gather(t, Options{Config: w.start()})
		want := pageSize + 20
		if slow {
			want = pageSize
		}
		unseen := slices.ContainsFunc(f.Unseen, func(u facts.Unseen) bool {
			return u.Resource == "approvals.board.corp.test" && u.Reason == "the first 500 were read, and there was no time for the others"
		})
		if got := len(f.Foreign["Approval.board.corp.test"]); got != want || unseen != slow {
			t.Errorf("slow %v: read %d, want %d; unseen %v", slow, got, want, f.Unseen)
		}
	}
}
