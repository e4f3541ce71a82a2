package mix

import (
	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/draft"
)

// Settled is the mix that was found to hold, what it was found from, and how long it holds. More than slack pods have to come or
// go before it can be another.
type Settled struct {
	mix, told     *api.RequestMix
	asked, supply uint64 // editions
	slack         uint64
}

// Of is the mix of the model: the one that was told, while what is known is much like it, else what is known. nil: nothing is priced. It
// follows from what was told alone, in whatever order that came.
func (b *Settled) Of(m *cluster.Model) *api.RequestMix {
	if !m.Prices() {
		return nil
	}
	told := m.RequestMix
	if told != nil && m.IsRejected(api.KindRequestMix, told.Ref().Key) {
		told = nil
	}
	if b.mix != nil && b.told == told && b.supply == m.Supply.Edition && m.Asked.Edition-b.asked <= b.slack {
		return b.mix
	}
	known, all := m.KnownMix()
	*b = Settled{mix: known, told: told, asked: m.Asked.Edition, supply: m.Supply.Edition}
	if told == nil {
		return known
	}
	if slack, alike := muchAlike(told, known); alike {
		b.mix = told
		if all {
			b.slack = slack
		}
	}
	return b.mix
}

// Remember has the plan that is being made remember the mix of the model, unless it is the one that was told.
func (b *Settled) Remember(d *draft.Draft, m *cluster.Model) {
	known := b.Of(m)
	if known == nil || known == b.told || len(known.Requests) == 0 {
		return
	}
	mix := *known
	mix.Version = d.NextVersion()
	d.Remember(api.Change{RequestMix: &mix})
}

// muchAlike says whether the parts that requests of each kind make up of all differ by no more than a quarter in sum, and so of the
// GPUs of each model. It also says how many requests may come or go before that can be otherwise. Where nothing is known, all
// that was told still holds.
func muchAlike(told, known *api.RequestMix) (slack uint64, alike bool) {
	if len(known.Requests) == 0 {
		return 0, true
	}
	had, has, apart := distance(told.Requests, known.Requests, (*api.RequestKind).Compare, func(k *api.RequestKind) int64 { return k.Count })
	//mutate: mix-of-requests
	if apart > had*has/4 {
		return 0, false
	}
	// Of n requests, one more or less moves the parts by no more than 2/n in sum.
	slack = uint64((had*has - 4*apart) / (9 * had))
	had, has, apart = distance(told.Supply, known.Supply, compareSupply, func(s *api.ModelSupply) int64 { return s.GPUs })
	//mutate: mix-of-supply
	if apart > had*has/4 {
		return 0, false
	}
	return slack, true
}

func compareSupply(a, b *api.ModelSupply) int {
	switch {
	case a.Model < b.Model:
		return -1
	case a.Model > b.Model:
		return 1
	}
	return 0
}

// distance is the sum of the lists and, in parts of the product of these, the sum of the differences of each one's part. Where one
// of the lists is empty, it is the product, or above.
func distance[T any](a, b []T, compare func(x, y *T) int, amount func(*T) int64) (sumA, sumB, apart int64) {
	for i := range a {
		sumA += amount(&a[i])
	}
	for i := range b {
		sumB += amount(&b[i])
	}
	if (sumA == 0) != (sumB == 0) {
		return max(1, sumA), max(1, sumB), max(1, sumA) * max(1, sumB)
	}
	for len(a) > 0 || len(b) > 0 {
		order := 0
		switch {
		case len(a) == 0:
			order = 1
		case len(b) == 0:
			order = -1
		default:
			order = compare(&a[0], &b[0])
		}
		by := int64(0)
		if order <= 0 {
			by, a = amount(&a[0])*sumB, a[1:]
		}
		if order >= 0 {
			by, b = by-amount(&b[0])*sumA, b[1:]
		}
		apart += max(by, -by)
	}
	return sumA, sumB, apart
}
