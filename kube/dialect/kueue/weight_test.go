package kueue

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/kube/dialect"
	"github.com/berth-dev/berth/kube/dialect/dialecttest"
)

// family is a world that lists ClusterQueues and Cohorts.
type family struct {
	world
	queues, cohorts []*dialect.Object
}

func (f *family) Objects(kind, _ string) []*dialect.Object {
	switch kind {
	case ClusterQueues:
		return f.queues
	case Cohorts:
		return f.cohorts
	}
	return nil
}

// weigh reads members of the cohort all, each with a weight ("" for none) and every second of them a Cohort, as often as it takes for
// each to have seen the others.
func weigh(t testing.TB, in string, weights ...string) (got []int32, unread [][]string) {
	f := &family{world: world{}}
	for range 2 {
		got, unread = nil, nil
		var queues, cohorts []*dialect.Object
		for i, weight := range weights {
			share, field, read := "", "cohortName", ReadClusterQueue
			if weight != "" {
				share = ", fairSharing: {weight: " + weight + "}"
			}
			if i%2 == 1 {
				field, read = "parentName", ReadCohort
			}
			o := read(dialecttest.Object(t, fmt.Sprintf("{metadata: {name: q%d}, spec: {%s: %q%s}}", i, field, in, share)), f)
			o.Name = fmt.Sprint("q", i)
			if i%2 == 1 {
				cohorts = append(cohorts, &o)
			} else {
				queues = append(queues, &o)
			}
			got, unread = append(got, o.Queue.Spec.Weight), append(unread, o.Unread)
		}
		f.queues, f.cohorts = queues, cohorts
	}
	return got, unread
}

// Weights count among those of one cohort, so that a fraction is a whole number once all of them are multiplied alike.
func TestWeights(t *testing.T) {
	const told = "spec.fairSharing.weight"
	cases := map[string]struct {
		weights []string
		want    []int32
		told    []int // who is told of
	}{
		"whole numbers stay":         {weights: []string{"2", "4", ""}, want: []int32{2, 4, 1}},
		"quarters":                   {weights: []string{`"0.25"`, `"0.75"`}, want: []int32{1, 3}},
		"beside one that says none":  {weights: []string{`"0.5"`, "", "3"}, want: []int32{1, 2, 6}},
		"as milli":                   {weights: []string{"1500m", "1"}, want: []int32{3, 2}},
		"as a number":                {weights: []string{"0.1", "0.3"}, want: []int32{1, 3}},
		"nothing is next to nothing": {weights: []string{"0", "2", "1"}, want: []int32{1, 65536, 32768}},
		"all nothing":                {weights: []string{"0", "0"}, want: []int32{1, 1}},
		"alone":                      {weights: []string{`"0.3"`}, want: []int32{1}},
		"too far apart":              {weights: []string{"1m", "1k"}, want: []int32{1, 65536}, told: []int{0, 1}},
		"too many":                   {weights: []string{"70k", "1"}, want: []int32{65536, 1}, told: []int{0, 1}},
		"below nothing":              {weights: []string{"-1", "1"}, want: []int32{1, 1}, told: []int{0}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, unread := weigh(t, "all", c.weights...)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			for i, list := range unread {
				if slices.ContainsFunc(list, func(s string) bool { return strings.HasPrefix(s, told) }) != slices.Contains(c.told, i) {
					t.Errorf("of q%d is told %q", i, list)
				}
			}
		})
	}
	if got, unread := weigh(t, "", `"0.5"`, `"0.25"`); !cmp.Equal(got, []int32{1, 1}) || len(unread[0])+len(unread[1]) > 0 {
		t.Errorf("without a cohort, where nothing is shared, they are %v, and told is %q", got, unread)
	}
}

// What nobody is told of has the proportions that are written, whichever they are.
func TestWeightsKeepProportions(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(rt, "members")
		var weights []string
		var exact []*big.Rat
		for range n {
			milli := rapid.Int64Range(1, 5000).Draw(rt, "milli")
			weights = append(weights, resource.NewMilliQuantity(milli, resource.DecimalSI).String())
			exact = append(exact, big.NewRat(milli, 1))
		}
		got, unread := weigh(t, "all", weights...)
		for i := range got {
			if got[i] < 1 || got[i] > 65536 {
				rt.Fatalf("%v of %v", got, weights)
			}
			if len(unread[i])+len(unread[0]) > 0 {
				continue
			}
			want := new(big.Rat).Quo(exact[i], exact[0])
			if big.NewRat(int64(got[i]), int64(got[0])).Cmp(want) != 0 {
				rt.Fatalf("%v of %v", got, weights)
			}
		}
	})
}
