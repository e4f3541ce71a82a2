package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// asked counts the pods that are known by what they ask of GPUs: what Packing priced takes later requests to be like.
type asked struct {
	kinds   map[requestKey]*requestKind
	Edition uint64 // pods that were counted in or out, ever
}

type requestKey struct {
	gpus, cpu int64
	models    string // sorted, quoted and joined; "": any
}

func (k requestKey) String() string {
	return fmt.Sprintf("%d GPUs, %dm CPU, models %s", k.gpus, k.cpu, k.models)
}

type requestKind struct {
	requestKey
	accepts []string // sorted; nil: any
	count   int64
}

func (a *asked) add(p *Pod, dims *quantity.Dims) {
	key := requestKey{gpus: min(p.Amount(quantity.DimGPU), api.MostMixedGPUs)}
	if key.gpus == 0 {
		return
	}
	key.cpu = min(p.Amount(dims.ID(api.CPU)), api.MostMixedCPU)
	var models []string
	if len(p.GPU.Models) > 0 {
		models = mixedModels(p.GPU.Models)
		key.models = fmt.Sprintf("%q", models)
	}
	k := a.kinds[key]
	if k == nil {
		if a.kinds == nil {
			a.kinds = make(map[requestKey]*requestKind)
		}
		k = &requestKind{requestKey: key, accepts: models}
		a.kinds[key] = k
	}
	k.count++
	a.Edition++
	p.kind = k
}

// mixedModels is the models as a mix has them: sorted, each once, and not too many.
func mixedModels(models []string) []string {
	models = slices.Compact(slices.Sorted(slices.Values(models)))
	return models[:min(len(models), api.MostMixedModels)]
}

func (a *asked) drop(p *Pod) {
	k := p.kind
	if k == nil {
		return
	}
	p.kind = nil
	a.Edition++
	if k.count--; k.count == 0 {
		delete(a.kinds, k.requestKey)
	}
}

// supply counts the GPUs of nodes by model, "" where it is not known, free or not.
type supply struct {
	byModel map[string]int64
	Edition uint64
	priced  int // nodes that ask for Packing priced
}

// move counts the GPUs of a node that was old, nil allowed, and is got.
func (s *supply) move(old, got *api.Node, gpu string) {
	if s.byModel == nil {
		s.byModel = make(map[string]int64)
	}
	if old != nil && got != nil && old.Packing == got.Packing && old.SameDevices(got) && old.Allocatable.Get(gpu) == got.Allocatable.Get(gpu) {
		return
	}
	s.Edition++
	s.count(got, gpu, 1)
	s.count(old, gpu, -1)
}

func (s *supply) count(n *api.Node, gpu string, by int64) {
	if n == nil {
		return
	}
	if n.Packing == api.Priced {
		s.priced += int(by)
	}
	add := func(model string, gpus int64) {
		if s.byModel[model] += gpus; s.byModel[model] == 0 {
			delete(s.byModel, model)
		}
	}
	for _, d := range n.Devices {
		add(d.Model, by)
	}
	if len(n.Devices) == 0 {
		add(n.Model, by*n.Allocatable.Get(gpu))
	}
}

// Prices says whether Packing priced is in force anywhere.
func (m *Model) Prices() bool {
	if m.Config.Packing == api.Priced || m.Supply.priced > 0 {
		return true
	}
	//archtest:any-order it asks whether there is one
	for _, q := range m.Queues {
		if q.Spec != nil && q.Spec.Packing == api.Priced {
			return true
		}
	}
	return false
}

// KnownMix is the mix of the requests that are known, without a version. all says that every pod that asks for GPUs, of a
// model that there is, counts in it by itself. It costs the kinds of requests, sorted.
func (m *Model) KnownMix() (mix *api.RequestMix, all bool) {
	mix, all = &api.RequestMix{}, len(m.Supply.byModel) <= api.MostMixedModels
	//archtest:any-order they are sorted
	for model, n := range m.Supply.byModel {
		mix.Supply = append(mix.Supply, api.ModelSupply{Model: model, GPUs: min(n, api.MostSuppliedOfOne)})
	}
	slices.SortFunc(mix.Supply, func(a, b api.ModelSupply) int {
		return cmp.Or(cmp.Compare(b.GPUs, a.GPUs), strings.Compare(a.Model, b.Model))
	})
	mix.Supply = mix.Supply[:min(len(mix.Supply), api.MostMixedModels)]
	slices.SortFunc(mix.Supply, func(a, b api.ModelSupply) int { return strings.Compare(a.Model, b.Model) })
	//archtest:any-order they are sorted
	for _, k := range m.Asked.kinds {
		r := api.RequestKind{GPUs: k.gpus, CPU: k.cpu, Models: k.accepts, Count: min(k.count, api.MostMixedCount)}
		if r.Models == nil || slices.ContainsFunc(mix.Supply, func(s api.ModelSupply) bool { _, ok := slices.BinarySearch(r.Models, s.Model); return ok }) {
			mix.Requests = append(mix.Requests, r)
			all = all && k.count <= api.MostMixedCount
		}
	}
	if len(mix.Requests) > api.MostRequestKinds {
		slices.SortFunc(mix.Requests, func(a, b api.RequestKind) int { return cmp.Or(cmp.Compare(b.Count, a.Count), a.Compare(&b)) })
		mix.Requests, all = mix.Requests[:api.MostRequestKinds], false
	}
	slices.SortFunc(mix.Requests, func(a, b api.RequestKind) int { return a.Compare(&b) })
	return mix, all
}

// asked counts the kinds of requests and the GPUs by model.
func (a *Check) asked() {
	m := a.m
	counts, gpus := make(map[requestKey]int64), make(map[string]int64)
	//archtest:any-order a count for each kind
	for key, p := range m.Pods {
		if n := p.Requests.Get(m.Config.GPU); n > 0 && !m.IsRejected(api.KindPod, key) {
			at := requestKey{gpus: min(n, api.MostMixedGPUs), cpu: min(p.Requests.Get(api.CPU), api.MostMixedCPU)}
			if len(p.GPU.Models) > 0 {
				at.models = fmt.Sprintf("%q", mixedModels(p.GPU.Models))
			}
			counts[at]++
		}
	}
	//archtest:any-order Audit sorts what is found
	for key, k := range m.Asked.kinds {
		a.Note("cluster", "", "requests", key.String(), k.count, counts[key])
		delete(counts, key)
	}
	//archtest:any-order Audit sorts what is found
	for key, n := range counts {
		a.Note("cluster", "", "requests", key.String(), 0, n)
	}
	//archtest:any-order a count for each model
	for _, n := range m.Nodes {
		if n.Spec == nil {
			continue
		}
		for _, d := range n.Spec.Devices {
			gpus[d.Model]++
		}
		if len(n.Spec.Devices) == 0 {
			gpus[n.Spec.Model] += n.Spec.Allocatable.Get(m.Config.GPU)
		}
	}
	//archtest:any-order Audit sorts what is found
	for model, n := range m.Supply.byModel {
		a.Note("cluster", "", "supply", model, n, gpus[model])
		delete(gpus, model)
	}
	//archtest:any-order Audit sorts what is found
	for model, n := range gpus {
		a.Note("cluster", "", "supply", model, 0, n)
	}
}
