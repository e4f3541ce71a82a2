package mix

import (
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-dev/berth/engine/internal/api"
)

// parts is what each count makes up of all.
func parts(counts []int64) []*big.Rat {
	var sum int64
	for _, n := range counts {
		sum += n
	}
	out := make([]*big.Rat, len(counts))
	for i, n := range counts {
		out[i] = new(big.Rat)
		if sum > 0 {
			out[i].SetFrac64(n, sum)
		}
	}
	return out
}

// apart is the sum of the differences of the parts.
func apart(a, b []int64) *big.Rat {
	sum := new(big.Rat)
	of, than := parts(a), parts(b)
	for i := range of {
		d := new(big.Rat).Sub(of[i], than[i])
		sum.Add(sum, d.Abs(d))
	}
	return sum
}

// requests are those of the counts, of so many GPUs each; what nobody asks for is not listed.
func requests(counts []int64) (out []api.RequestKind) {
	for i, n := range counts {
		if n > 0 {
			out = append(out, api.RequestKind{GPUs: int64(i), Count: n})
		}
	}
	return out
}

// Mixes are much alike where parts differ by no more than a quarter in sum, counted here in fractions. They still are when as many
// requests as are told have come or gone.
func TestMuchAlikeInFractions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		counts := rapid.SliceOfN(rapid.Int64Range(0, 60), 3, 3)
		had := counts.Draw(t, "had")
		has := counts.Draw(t, "has")
		if rapid.Bool().Draw(t, "near") {
			for i := range has {
				has[i] = max(0, had[i]*3+rapid.Int64Range(-9, 9).Draw(t, "more"))
			}
		}
		told, known := &api.RequestMix{Requests: requests(had)}, &api.RequestMix{Requests: requests(has)}
		if len(told.Requests) == 0 || len(known.Requests) == 0 {
			return
		}
		slack, alike := muchAlike(told, known)
		if want := apart(had, has).Cmp(big.NewRat(1, 4)) <= 0; alike != want {
			t.Fatalf("%v and %v: alike %v, and their parts differ by %v", had, has, alike, apart(had, has))
		}
		if !alike {
			return
		}
		for range slack {
			i := rapid.IntRange(0, 2).Draw(t, "kind")
			has[i] = max(0, has[i]+rapid.SampledFrom([]int64{-1, 1}).Draw(t, "by"))
		}
		if known.Requests = requests(has); len(known.Requests) == 0 {
			return
		}
		if _, alike := muchAlike(told, known); !alike {
			t.Fatalf("%v and, %d requests later, %v: their parts differ by %v", had, slack, has, apart(had, has))
		}
	})
}

// GPUs of other models, or many more of one, make another mix too.
func TestMuchAlikeBySupply(t *testing.T) {
	of := func(a, b int64) *api.RequestMix {
		m := &api.RequestMix{Requests: requests([]int64{0, 1}), Supply: []api.ModelSupply{{Model: "A", GPUs: a}}}
		if b > 0 {
			m.Supply = append(m.Supply, api.ModelSupply{Model: "B", GPUs: b})
		}
		return m
	}
	for _, c := range []struct {
		told, known *api.RequestMix
		want        bool
	}{
		{of(8, 8), of(80, 80), true},
		{of(8, 8), of(9, 7), true},
		{of(8, 8), of(8, 4), false},
		{of(8, 8), of(16, 0), false},
	} {
		if _, alike := muchAlike(c.told, c.known); alike != c.want {
			t.Errorf("%v and %v: alike %v", c.told.Supply, c.known.Supply, alike)
		}
	}
}
