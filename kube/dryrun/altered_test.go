package dryrun

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/diagnose/submit/rule"
)

func TestAltered(t *testing.T) {
	for name, c := range map[string]struct {
		sent, kept string
		want       []rule.Altered
	}{
		"defaults are added": {`spec: {a: 1}`, `spec: {a: 1, b: 2}`, nil},
		"dropped":            {`spec: {a: 1, group: {name: g}}`, `spec: {a: 1}`, []rule.Altered{{Path: "/spec/group", Dropped: true}}},
		"nothing is dropped": {`spec: {a: {}, b: [], c: "", d: 0, e: false}`, `spec: {}`, nil},
		"changed":            {`spec: {schedulerName: berth}`, `spec: {schedulerName: other}`, []rule.Altered{{Path: "/spec/schedulerName", Was: "berth", Now: "other"}}},
		"one amount":         {`spec: {limits: {cpu: 1000m, memory: 1024Mi, g: 1}}`, `spec: {limits: {cpu: "1", memory: 1Gi, g: "1"}}`, nil},
		"by name":            {`spec: {containers: [{name: a, image: x}, {name: b}]}`, `spec: {containers: [{name: s}, {name: a, image: z}, {name: b}]}`, []rule.Altered{{Path: "/spec/containers/0/image", Was: "x", Now: "z"}}},
		"item is gone":       {`spec: {tolerations: [{key: a}, {key: b}]}`, `spec: {tolerations: [{key: b, effect: NoSchedule}]}`, []rule.Altered{{Path: "/spec/tolerations/0", Dropped: true}}},
		"items are added":    {`spec: {tolerations: [{key: a}]}`, `spec: {tolerations: [{key: x}, {key: a}]}`, nil},
		"write only":         {`stringData: {a: b}`, `data: {a: Yg==}`, nil},
		"slashes":            {`metadata: {labels: {a/b: c}, name: x}`, `metadata: {}`, []rule.Altered{{Path: "/metadata/labels", Dropped: true}}},
	} {
		var sent, kept map[string]any
		for text, into := range map[string]*map[string]any{c.sent: &sent, c.kept: &kept} {
			if err := yaml.Unmarshal([]byte(text), into); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(c.want, altered(sent, kept, "")); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func FuzzAltered(f *testing.F) {
	f.Add([]byte(`{"spec":{"a":[{"name":"x"}]}}`), []byte(`{"spec":{"a":["x"]}}`))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		var sent, kept map[string]any
		if yaml.Unmarshal(a, &sent) != nil || yaml.Unmarshal(b, &kept) != nil {
			t.Skip()
		}
		for _, found := range altered(sent, kept, "") {
			if !inTree(sent, found.Path) {
				t.Errorf("%s is not in what was sent", found.Path)
			}
		}
		if again := altered(sent, sent, ""); len(again) > 0 {
			t.Errorf("an object differs from itself: %v", again)
		}
	})
}
