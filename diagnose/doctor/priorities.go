package doctor

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var prioritiesItem = Item{
	Code: "priorities", Title: "priority classes do what they promise", Owner: check.Scheduler, Needs: []string{"priorityclasses.scheduling.k8s.io", "pods"}, Find: prioritiesFound,
	Meaning: "A class that does not exist lets no pod be created; one that never preempts, and work that all has one priority, wait in the order in which they came.",
}

func prioritiesFound(c *Cluster) Result {
	r := Result{Looked: fmt.Sprintf("%d priority %s", len(c.PriorityClasses), wording.InNumber(len(c.PriorityClasses), "class", "classes"))}
	classes := make(map[string]*schedulingv1.PriorityClass)
	var defaults []*schedulingv1.PriorityClass
	for _, p := range slices.SortedFunc(slices.Values(c.PriorityClasses), func(a, b *schedulingv1.PriorityClass) int { return cmp.Compare(a.Name, b.Name) }) {
		classes[p.Name] = p
		if p.GlobalDefault {
			defaults = append(defaults, p)
		}
	}
	r.Findings = slices.Concat(severalDefaults(defaults), c.missingClasses(classes), c.neverPreempt(classes), c.onePriority())
	return r
}

func classRef(p *schedulingv1.PriorityClass) string { return "priorityclass/" + p.Name }

func severalDefaults(defaults []*schedulingv1.PriorityClass) []Finding {
	if len(defaults) < 2 {
		return nil
	}
	f := Finding{Severity: Warn, Next: "leave globalDefault to one class: of several, the lowest counts"}
	var names []string
	for _, p := range defaults {
		names = append(names, p.Name)
		f.Objects = append(f.Objects, classRef(p))
		f.Evidence = append(f.Evidence, facts.Evidence{Object: classRef(p), Field: "globalDefault", Value: "true"})
	}
	f.Message = "several classes are the default: " + wording.Few(names)
	return []Finding{f}
}

// missingClasses are classes that GPU work names and that do not exist: its pods cannot be created.
func (c *Cluster) missingClasses(classes map[string]*schedulingv1.PriorityClass) (out []Finding) {
	missing := make(map[string]*Finding)
	var order []string
	look := func(object, field, class string) {
		if class == "" || classes[class] != nil || class == "system-node-critical" || class == "system-cluster-critical" {
			return
		}
		if missing[class] == nil {
			missing[class] = &Finding{Severity: Fail, Owner: check.User, Message: fmt.Sprintf("GPU work names the priority class %s, which does not exist: no more pods of it can be created", class), Next: "create the class, or have the work name another"}
			order = append(order, class)
		}
		f := missing[class]
		f.Objects = append(f.Objects, object)
		f.Evidence = append(f.Evidence, facts.Evidence{Object: object, Field: field, Value: class})
	}
	for i := range c.pods {
		look(facts.RefTo(c.pods[i].Pod).In(), "spec.priorityClassName", c.pods[i].Spec.PriorityClassName)
	}
	for _, k := range facts.Kinds {
		switch k.Kind {
		case "Deployment", "StatefulSet", "Job", "CronJob":
		default:
			continue
		}
		if k.Foreign {
			continue
		}
		for _, o := range k.List(&c.Objects) {
			if t := facts.TemplateOf(o); t != nil && t.Spec.PriorityClassName != "" && len(gpusAsked(&corev1.Pod{Spec: t.Spec})) > 0 {
				look(facts.RefTo(o).In(), "spec.template.spec.priorityClassName", t.Spec.PriorityClassName)
			}
		}
	}
	slices.Sort(order)
	for _, class := range order {
		out = append(out, *missing[class])
	}
	return out
}

// neverPreempt are pods that wait behind lower priorities because their class never preempts.
func (c *Cluster) neverPreempt(classes map[string]*schedulingv1.PriorityClass) (out []Finding) {
	lowest, holds := int32(0), false
	for _, p := range c.pods {
		if p.Spec.NodeName != "" && (!holds || priorityOf(p.Pod) < lowest) {
			lowest, holds = priorityOf(p.Pod), true
		}
	}
	byClass := make(map[string]*Finding)
	var order []string
	for _, p := range c.pods {
		if p.Spec.NodeName != "" || !holds || priorityOf(p.Pod) <= lowest || ptr.Deref(p.Spec.PreemptionPolicy, corev1.PreemptLowerPriority) != corev1.PreemptNever {
			continue
		}
		name := p.Spec.PriorityClassName
		if byClass[name] == nil {
			byClass[name] = &Finding{Severity: Warn, Next: "expect the work to wait for GPUs to become free, or use a class whose preemptionPolicy is PreemptLowerPriority"}
			if class := classes[name]; class != nil {
				byClass[name].Evidence = []facts.Evidence{{Object: classRef(class), Field: "preemptionPolicy", Value: string(ptr.Deref(class.PreemptionPolicy, ""))}}
			}
			order = append(order, name)
		}
		f := byClass[name]
		f.Objects = append(f.Objects, facts.RefTo(p.Pod).In())
		f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(p.Pod).In(), Field: "spec.preemptionPolicy", Value: string(corev1.PreemptNever)})
	}
	slices.Sort(order)
	for _, name := range order {
		f := byClass[name]
		f.Message = fmt.Sprintf("%s of class %s %s and never preempt, while work of lower priority holds GPUs", wording.Pods(len(f.Objects)), cmp.Or(name, "none"), wording.InNumber(len(f.Objects), "waits", "wait"))
		out = append(out, *f)
	}
	return out
}

func priorityOf(p *corev1.Pod) int32 { return ptr.Deref(p.Spec.Priority, 0) }

// onePriority says that classes exist and all GPU work has one priority, while some of it waits: then nothing preempts. A
// queueing system decides by its own rules, and is left alone.
func (c *Cluster) onePriority() []Finding {
	waits, seen := 0, make(map[int32]bool)
	for _, p := range c.pods {
		seen[priorityOf(p.Pod)] = true
		if p.Spec.NodeName == "" {
			waits++
		}
	}
	own := slices.DeleteFunc(slices.Clone(c.PriorityClasses), func(p *schedulingv1.PriorityClass) bool { return p.Value >= 1000000000 })
	if waits == 0 || len(seen) != 1 || len(c.pods) < 4 || len(own) == 0 || len(c.queues()) > 0 {
		return nil
	}
	return []Finding{{
		Severity: Note, Message: fmt.Sprintf("all %d pods that ask for GPUs have one priority, and %d %s: nothing can preempt anything", len(c.pods), waits, wording.InNumber(waits, "waits", "wait")),
		Next:     "give urgent work a priority class with a higher value, if there is any",
		Evidence: []facts.Evidence{{Object: facts.RefTo(c.pods[0].Pod).In(), Field: "spec.priority", Value: fmt.Sprint(priorityOf(c.pods[0].Pod))}},
	}}
}
