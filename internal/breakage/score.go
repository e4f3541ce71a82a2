package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// score holds the answer against what was broken.
func (t *trial) score(ctx context.Context) {
	truth := truthOf(t.object, t.path)
	t.layer = slices.Contains(truth.layers, t.answer.Layer)
	t.owner = slices.Contains(truth.owners, t.answer.Owner)
	t.allClear = clear(t.answer)
	t.cause = !t.allClear && t.answer.Cause != "unknown" && t.names()
	t.findable = t.isFound(ctx)
}

// names says whether the answer names the broken object, or one that is made from it, and the field or its value.
func (t *trial) names() bool {
	text := t.answer.said()
	return t.namesObject(text) && t.namesField(text)
}

// said is everything that a reader of the answer sees.
func (a *answer) said() string {
	var b strings.Builder
	fmt.Fprintln(&b, a.Summary)
	for _, k := range a.Blockers {
		fmt.Fprintln(&b, k.Message)
		for _, e := range k.Evidence {
			fmt.Fprintln(&b, e.Object, e.Field, e.Value)
		}
	}
	for _, f := range a.Fixes {
		fmt.Fprintln(&b, f.Edit, f.Command, f.Outcome, f.Assumes)
	}
	return b.String()
}

// namesObject: a workload is named by its pods too, and a pool by its nodes, whose names begin with theirs.
func (t *trial) namesObject(text string) bool { return strings.Contains(text, t.object.name()) }

// namesField looks for the field's own name, for the names on the way to it if it is an item or a common word, and for the
// values before and after.
func (t *trial) namesField(text string) bool {
	lower := strings.ToLower(text)
	for _, word := range t.words() {
		if len(word) > 1 && strings.Contains(lower, strings.ToLower(word)) {
			return true
		}
	}
	return false
}

// general are names of fields that say nothing by themselves.
var general = []string{"spec", "metadata", "template", "name", "key", "value", "values", "operator", "data", "labels", "annotations", "containers", "type"}

func (t *trial) words() (out []string) {
	// The field, and the nearest names above it that mean something: of tolerations[0].key it is tolerations.
	for i := len(t.path) - 1; i >= 0; i-- {
		s := t.path[i]
		if _, ok := index(s); ok || slices.Contains(general, s) {
			continue
		}
		out = append(out, s, strings.TrimSuffix(s, "s"), strings.TrimSuffix(s, "Name"))
		break
	}
	if len(out) == 0 { // of data.key, key is all there is
		out = append(out, t.path[len(t.path)-1])
	}
	for _, v := range []any{t.change.old, t.change.new, t.change.key} {
		out = append(out, leaves(v)...)
	}
	return out
}

// leaves are the values of a field as texts, where they are specific enough to be recognised.
func leaves(v any) (out []string) {
	switch v := v.(type) {
	case string:
		if len(v) > 2 || isAmount(v) {
			out = append(out, v)
		}
	case int64, float64:
		if s := fmt.Sprint(v); len(s) > 2 {
			out = append(out, s)
		}
	case map[string]any:
		for _, k := range sortedKeys(v) {
			out = append(append(out, leaves(k)...), leaves(v[k])...)
		}
	case []any:
		for _, item := range v {
			out = append(out, leaves(item)...)
		}
	}
	return out
}

// isFound says whether the old value is anywhere in the cluster: in a sibling's same field, or, for a text, in any object
// that is not of another cell.
func (t *trial) isFound(ctx context.Context) bool {
	for _, k := range t.cluster.kinds {
		spaces := []string{""}
		if k.namespaced {
			spaces = []string{t.cell.name, stackNamespace}
		}
		for _, space := range spaces {
			list, err := t.of(k, space).List(ctx, metav1.ListOptions{})
			if err != nil {
				continue
			}
			for i := range list.Items {
				u := &list.Items[i]
				if k.name == t.object.kind.name && u.GetName() == t.object.name() || !k.namespaced && !t.cell.mentions(u) {
					continue
				}
				if t.holds(k, u.Object) {
					return true
				}
			}
		}
	}
	return false
}

func (t *trial) holds(k kind, o map[string]any) bool {
	if v, ok := get(o, t.path); ok && k.name == t.object.kind.name && equal(v, t.change.old) {
		return true
	}
	old, ok := t.change.old.(string)
	if !ok || len(old) < 3 {
		return false
	}
	b, err := json.Marshal(o)
	return err == nil && strings.Contains(string(b), `"`+old+`"`)
}

// scoreFix: reverting is among the fixes where the old value can be found; else the answer names the field, or a fix of
// another kind works.
func (t *trial) scoreFix() {
	for _, a := range t.tried {
		if a.revert && a.works {
			t.fix = true
		}
	}
	for _, f := range t.answer.Fixes {
		t.fix = t.fix || t.reverts(f.Edit+" "+f.Command)
	}
	if t.findable || t.fix {
		return
	}
	works := slices.ContainsFunc(t.tried, func(a attempt) bool { return a.works })
	t.fix = works || t.cause && t.namesField(t.answer.said())
}

// reverts says whether the words of a fix have the object and the old value in them.
func (t *trial) reverts(fix string) bool {
	if !strings.Contains(fix, t.object.name()) && !t.object.works() {
		return false
	}
	for _, v := range leaves(t.change.old) {
		if strings.Contains(fix, v) {
			return true
		}
	}
	return false
}
