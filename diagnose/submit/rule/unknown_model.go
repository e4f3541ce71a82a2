package rule

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/submit/workload"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/internal/spelling"
	"github.com/berth-dev/berth/kube/convert"
)

var unknownModel = Rule{
	Code: "B108", Name: "no-such-gpu-model",
	Title:  "A GPU model that no node has",
	Why:    "A value of nvidia.com/gpu.product is compared letter by letter: H100 is not NVIDIA-H100-80GB-HBM3. Where it is required the pod waits for ever, and where it is one of several, or preferred, it is passed over without a word.",
	Covers: []why.Cause{"label-near-miss", why.NoMatchingNode},
	find:   findUnknownModel,
}

func findUnknownModel(c *Case) (out []Finding) {
	products := facts.Derive(c.Facts, productsOf)
	if len(products) == 0 {
		return nil
	}
	c.each(func(p *workload.Part, pod *corev1.Pod) {
		check := func(value, path, how string) {
			if value == "" || slices.Contains(products, value) {
				return
			}
			f := Finding{Path: path, Message: fmt.Sprintf("no node has %s %s, which it %s; nodes have %s", gpustack.LabelProduct, value, how, strings.Join(products[:min(4, len(products))], ", "))}
			if near, ok := nearest(value, products); ok && strings.HasSuffix(path, edit.Pointer(gpustack.LabelProduct)) {
				f.Patch = []edit.Op{{Op: "replace", Path: path, Value: near}}
			}
			out = append(out, f)
		}
		check(pod.Spec.NodeSelector[gpustack.LabelProduct], p.Template+edit.Pointer("spec", "nodeSelector", gpustack.LabelProduct), "requires")
		if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil {
			at := p.Template + "/spec/affinity/nodeAffinity"
			if r := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution; r != nil {
				for _, t := range r.NodeSelectorTerms {
					eachProduct(t, func(v string) { check(v, at+"/requiredDuringSchedulingIgnoredDuringExecution", "would take") })
				}
			}
			for _, t := range a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
				eachProduct(t.Preference, func(v string) { check(v, at+"/preferredDuringSchedulingIgnoredDuringExecution", "prefers") })
			}
		}
		out = append(out, c.unknownAlternatives(pod)...)
	})
	return out
}

// products are the models that nodes say they have, sorted.
type products []string

func productsOf(f *facts.Facts) products {
	var out products
	for _, n := range f.Nodes {
		if v := n.Labels[gpustack.LabelProduct]; v != "" && !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	slices.Sort(out)
	return out
}

func eachProduct(t corev1.NodeSelectorTerm, do func(string)) {
	for _, e := range t.MatchExpressions {
		if e.Key == gpustack.LabelProduct && e.Operator == corev1.NodeSelectorOpIn {
			for _, v := range e.Values {
				do(v)
			}
		}
	}
}

// nearest is the one product that was probably meant: of which the value is a part, or that is spelt almost alike.
func nearest(value string, products []string) (string, bool) {
	var inside []string
	for _, p := range products {
		if strings.Contains(strings.ToLower(p), strings.ToLower(value)) {
			inside = append(inside, p)
		}
	}
	if len(inside) == 1 {
		return inside[0], true
	}
	return spelling.Closest(value, products)
}

// unknownAlternatives are models of Berth's own key that no node has.
func (c *Case) unknownAlternatives(pod *corev1.Pod) (out []Finding) {
	value, _ := c.Inherited(pod, v1alpha1.KeyGPUModel)
	if value == "" || value == v1alpha1.SameGPUModel {
		return nil
	}
	have := make(map[string]bool)
	for _, n := range c.Nodes {
		for _, d := range convert.Node(n, convert.Options{}).Devices {
			have[d.Model] = true
		}
	}
	if len(have) == 0 {
		return nil
	}
	asks := &corev1.Pod{}
	asks.Annotations = map[string]string{v1alpha1.KeyGPUModel: value}
	for _, m := range convert.Pod(asks, convert.Options{}).GPU.Models {
		if !have[m] {
			out = append(out, Finding{Path: "/metadata", Message: fmt.Sprintf("no node has GPU model %s, which %s names", m, v1alpha1.KeyGPUModel)})
		}
	}
	return out
}
