package l4

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/diagnose/internal/place"
)

// blamesSetting adds to a finding about a program that ended the setting that its last words name with the value that it was given: an
// annotation of the pod, or a variable of the container. Where pods of the namespace are ready with another value, that is offered.
func blamesSetting(c *check.Case, k *life.Container, words string, f *check.Finding) {
	at := facts.RefTo(c.Pod).In()
	written := place.Written(c)
	for _, key := range slices.Sorted(maps.Keys(written.Annotations)) {
		value := written.Annotations[key]
		if !named(words, key, value) {
			continue
		}
		f.Evidence = append(f.Evidence, facts.Evidence{Object: at, Field: fmt.Sprintf("metadata.annotations[%q]", key), Value: value})
		other, user := readyWith(c, value, func(p *corev1.Pod) string { return p.Annotations[key] })
		if other != "" {
			f.Edits = append(f.Edits, givenAs(fmt.Sprintf("annotation %s", key), other, value, user, place.PutAnnotation(c, key, other)))
		}
		return
	}
	for i, v := range life.Authored(c, k).Env {
		if v.ValueFrom != nil || !named(words, v.Name, v.Value) {
			continue
		}
		f.Evidence = append(f.Evidence, facts.Evidence{Object: at, Field: fmt.Sprintf("spec.containers[%q].env[%q]", k.Name, v.Name), Value: v.Value})
		other, user := readyWith(c, v.Value, func(p *corev1.Pod) string {
			for _, o := range life.ContainersOf(p) {
				for _, e := range o.Env {
					if e.Name == v.Name {
						return e.Value
					}
				}
			}
			return ""
		})
		if other != "" {
			f.Edits = append(f.Edits, givenAs("variable "+v.Name, other, v.Value, user, edit.Op{Op: "replace", Path: k.Path("env", fmt.Sprint(i), "value"), Value: other}))
		}
		return
	}
}

// named says whether the words name both the setting and its value; short ones are in many a word.
func named(words, key, value string) bool {
	return len(key) > 3 && value != "" && strings.Contains(words, key) && strings.Contains(strings.ReplaceAll(words, key, ""), value)
}

// readyWith is another value that a ready pod of the namespace has, and that pod: the first by name.
func readyWith(c *check.Case, not string, of func(*corev1.Pod) string) (value, user string) {
	for _, p := range c.Pods {
		if v := of(p); p.Namespace == c.Pod.Namespace && v != "" && v != not && facts.StateOf(p) == facts.Running && !facts.Unsettled(p) && (user == "" || p.Name < user) {
			value, user = v, p.Name
		}
	}
	return value, user
}

func givenAs(what, value, was, user string, op edit.Op) edit.Edit {
	return edit.Edit{
		Side: edit.Workload, Cost: edit.CostWord, Ops: []edit.Op{op}, Assumes: "it is right for this work too",
		Text: fmt.Sprintf("set %s to %s, as pod %s has it, in place of %s", what, value, user, was),
	}
}
