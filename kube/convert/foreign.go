package convert

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/dialect"
	"github.com/berth-dev/berth/kube/dialect/hami"
)

// foreignKeys lists the keys by which the pod asks for something that only another scheduler would give it: all keys in the
// domain of one, and annotations in the domain of a device that it requests, such as nvidia.com/use-gputype of HAMi. Passed
// over in silence, they put a pod on the wrong GPU. domains, among them single keys, are those that somebody else has read.
func foreignKeys(p *corev1.Pod, requests engine.Resources, domains []string) []string {
	read := rankKeys()
	for _, e := range hami.Editions() {
		read = append(read, e.Written()...) // when a pod is bound for HAMi's device plugin: nobody's wish
	}
	var out []string
	if _, ok := gpuTypes(&p.ObjectMeta); ok {
		read = append(read, hami.KeyUseType)
		out = variants(hami.KeyUseType, asked(&p.ObjectMeta, hami.KeyUseType))
	}
	read = append(read, hamiRead(p)...)
	if _, ok := typesOf(p.Annotations[hami.KeyNoUseType]); ok {
		for _, text := range variants(hami.KeyNoUseType, p.Annotations[hami.KeyNoUseType]) {
			out = append(out, strings.Replace(text, "will do)", "is left out)", 1))
		}
	}
	models := len(out)
	mine := func(key string) bool {
		return slices.Contains(read, key) || slices.Contains(domains, key) || len(domains) > 0 && dialect.Within(key, domains)
	}
	//archtest:any-order the keys are sorted below
	for key := range p.Annotations {
		if (dialect.ForScheduler(key) || ofDevice(key, requests)) && !mine(key) {
			out = append(out, key)
		}
	}
	//archtest:any-order the keys are sorted below
	for key := range p.Labels {
		if dialect.ForScheduler(key) && !mine(key) {
			out = append(out, key)
		}
	}
	for i, key := range out[models:] {
		out[models+i] = clipped(key, MaxNameBytes) + " (a key of another scheduler)"
	}
	return fewKeys(out, "of other schedulers")
}

// StockUnheeded lists what the pod asks for by keys that Kubernetes' own scheduler does not know, while Berth, KAI or HAMi would heed
// them: what of a GPU it wants, and of Berth's whom it starts with and who pays.
func StockUnheeded(p *corev1.Pod) []string {
	keys := slices.Concat(hamiKeys(), vgpuKeys(), []string{kaiFraction, kaiMemory, kaiDevices}, gangKeys(),
		[]string{v1alpha1.KeyQueue, v1alpha1.KeyGPUModel, v1alpha1.KeyGPUAlignment, v1alpha1.KeyGPUFraction, v1alpha1.KeyGPUMemory})
	var out []string
	for _, key := range keys {
		if asked(&p.ObjectMeta, key) != "" {
			out = append(out, key+" (schedulerName is "+corev1.DefaultSchedulerName+", which does not know it)")
		}
	}
	return fewKeys(out, "that it does not know")
}

// hamiRead are the keys of HAMi that the pod has and that are carried out.
func hamiRead(p *corev1.Pod) (out []string) {
	add := func(key string, ok bool) {
		if ok {
			out = append(out, key)
		}
	}
	part := partOf(p)
	for _, e := range hami.Editions() {
		for _, key := range []string{e.UseUUID, e.NoUseUUID} {
			_, ok := uuids(&p.ObjectMeta, key)
			add(key, ok || strings.TrimSpace(p.Annotations[key]) == "")
		}
		// Parts of GPUs come from those in that mode alone. HAMi takes a GPU whose mode is in the list.
		add(e.Mode, part.Part != nil && part.by == e.Name && strings.Contains(p.Annotations[e.Mode], hami.Core))
	}
	_, ok := typesOf(p.Annotations[hami.KeyNoUseType])
	add(hami.KeyNoUseType, ok || strings.TrimSpace(p.Annotations[hami.KeyNoUseType]) == "")
	add(hami.KeyNUMABind, !numaBound(&p.ObjectMeta) || part.Part == nil || part.Cards == 1)
	// Nodes and GPUs are packed anyway, and whole GPUs are alike.
	add(hami.KeyNodePolicy, strings.TrimSpace(p.Annotations[hami.KeyNodePolicy]) == hami.Binpack)
	add(hami.KeyGPUPolicy, gpuPolicy(p) != "")
	return out
}

// fewKeys is the keys, sorted and each once; of more than MaxProblems the first of them and how many more there are.
func fewKeys(keys []string, what string) []string {
	slices.Sort(keys)
	if keys = slices.Compact(keys); len(keys) > MaxProblems {
		keys = append(keys[:MaxProblems:MaxProblems], fmt.Sprintf("%d more keys %s", len(keys)-MaxProblems, what))
	}
	return keys
}

const nvidia = "nvidia.com"

// hamiWords begin the names of HAMi's keys in NVIDIA's domain, where keys of other software of NVIDIA's ask no scheduler for anything.
var hamiWords = []string{"use-", "nouse-", "vgpu-", "numa-"}

// ofDevice says whether the key has the domain of an extended resource among the requests, and asks for one device or another.
func ofDevice(key string, requests engine.Resources) bool {
	domain, name, ok := strings.Cut(key, "/")
	if domain == nvidia && !slices.ContainsFunc(hamiWords, func(word string) bool { return strings.HasPrefix(name, word) }) {
		return false
	}
	return ok && slices.ContainsFunc(requests, func(a engine.Amount) bool { return strings.HasPrefix(a.Resource, domain+"/") })
}
