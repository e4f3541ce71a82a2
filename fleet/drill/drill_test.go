package drill

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

var lab = []Place{{"a100", 2, 8}, {"h100", 1, 8}, {"l40s", 2, 4}}

// TestTemplates renders every drill with many seeds: manifests are YAML that names what it is about, every hint has its words.
func TestTemplates(t *testing.T) {
	if len(drills) < 20 {
		t.Errorf("%d drills", len(drills))
	}
	for _, d := range All() {
		alike := map[string]bool{}
		for seed := range uint64(50) {
			s, err := d.Set(seed, lab)
			if err != nil {
				t.Fatal(err)
			}
			s.Node = "a100-0"
			for _, text := range []string{d.before, d.incident} {
				text, err := s.render(text)
				if err != nil {
					t.Fatalf("%s: %v", s, err)
				}
				alike[text] = true
				for doc := range strings.SplitSeq(text, "\n---\n") {
					var o map[string]any
					if err := yaml.UnmarshalStrict([]byte(doc), &o); err != nil {
						t.Fatalf("%s: %v\n%s", s, err, doc)
					}
				}
			}
			hints, err := s.Hints()
			if err != nil || len(hints) < 3 || strings.Contains(strings.Join(hints, ""), "{{") {
				t.Errorf("%s: %v %q", s, err, hints)
			}
		}
		if len(alike) < 10 {
			t.Errorf("%s: 50 seeds make %d scenes", d.Name, len(alike))
		}
	}
}

func TestNoGPUs(t *testing.T) {
	if s, err := drills[0].Set(1, []Place{{"cpu", 3, 0}}); err == nil {
		t.Errorf("a drill without GPUs: %+v", s)
	}
}

// TestSameScene is that a seed means the same wherever pools are listed first.
func TestSameScene(t *testing.T) {
	for _, d := range drills {
		a, _ := d.Set(7, lab)
		b, _ := d.Set(7, []Place{lab[2], lab[0], lab[1]})
		if a != b {
			t.Errorf("%+v and %+v", a, b)
		}
	}
}
