package payer_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/capacity/payer"
)

func reservation(name string, instances int32, change ...func(*payer.Reservation)) payer.Reservation {
	r := payer.Reservation{Name: name, Paid: true}
	r.ID, r.InstanceType, r.Zone, r.Instances, r.GPUs.Count = "cr-"+name, "p5en.48xlarge", "a", instances, 8
	for _, c := range change {
		c(&r)
	}
	return r
}

func open(r *payer.Reservation) { r.Match = v1alpha1.MatchOpen }

// TestAssign has one machine of each sort and says by whom it is paid for.
func TestAssign(t *testing.T) {
	block, odcr := reservation("block", 2), reservation("odcr", 2, open)
	draws := &payer.Pool{Draws: []string{"block"}}
	others := &payer.Pool{Draws: []string{"block"}, ByOthers: true}
	const kind = "p5en.48xlarge"
	for _, c := range []struct {
		name string
		m    payer.Machine
		want string
	}{
		{"named by its id", payer.Machine{Reserved: "cr-block", Zone: "b"}, "block"},
		{"named by its name", payer.Machine{Reserved: "block", Zone: "a"}, "block"},
		{"named by its name in another zone", payer.Machine{Reserved: "block", Zone: "b"}, ""},
		{"named, of a pool that does not draw on it", payer.Machine{Reserved: "cr-odcr", Pool: draws}, "odcr"},
		{"names one that is not here", payer.Machine{Reserved: "cr-other", Zone: "a", InstanceType: kind, Pool: draws}, ""},
		{"drawn", payer.Machine{Zone: "a", InstanceType: kind, Pool: draws}, "block"},
		{"drawn, of the fleet", payer.Machine{Zone: "a", InstanceType: "sim.h200", Pool: draws}, "block"},
		{"drawn, of another type", payer.Machine{Zone: "a", InstanceType: "p4d.24xlarge", Pool: others}, ""},
		{"drawn, of another size", payer.Machine{Zone: "a", GPUs: 4, Pool: others}, ""},
		{"drawn, on demand", payer.Machine{Zone: "a", InstanceType: kind, CapacityType: v1alpha1.CapacityOnDemand, Pool: draws}, ""},
		{"open", payer.Machine{Zone: "a", InstanceType: kind}, "odcr"},
		{"open, in another zone", payer.Machine{Zone: "b", InstanceType: kind}, ""},
		{"open, and spot", payer.Machine{Zone: "a", InstanceType: kind, CapacityType: v1alpha1.CapacitySpot}, ""},
		{"open, of a pool that does not draw on it", payer.Machine{Zone: "a", InstanceType: kind, Pool: &payer.Pool{}}, ""},
	} {
		all := []payer.Reservation{block, odcr}
		got := ""
		if of := payer.Assign([]payer.Machine{c.m}, all)[0]; of >= 0 {
			got = all[of].Name
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestMakesRoom: three machines fit three reservations of one instance each only if the second goes to the third of them. Who comes first does
// not decide whether a machine is bought beside a reservation that is paid for.
func TestMakesRoom(t *testing.T) {
	all := []payer.Reservation{reservation("x", 1), reservation("y", 1), reservation("z", 1)}
	xy, yz := &payer.Pool{Draws: []string{"x", "y"}}, &payer.Pool{Draws: []string{"y", "z"}}
	got := payer.Assign([]payer.Machine{{Pool: xy}, {Pool: yz}, {Pool: xy}}, all)
	if want := "[0 2 1]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
}

// TestPaysForAsManyAsCanBe holds Assign to a search of all ways, and to what a reservation has.
func TestPaysForAsManyAsCanBe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []payer.Reservation
		for i := range rapid.IntRange(0, 4).Draw(t, "reservations") {
			all = append(all, reservation(fmt.Sprint(i), rapid.Int32Range(0, 2).Draw(t, "instances"), func(r *payer.Reservation) { r.Paid = rapid.IntRange(0, 4).Draw(t, "paid") > 0 }))
		}
		var pools []*payer.Pool
		for range 3 {
			pools = append(pools, &payer.Pool{Draws: rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"0", "1", "2", "3"}), 0, 3, rapid.ID[string]).Draw(t, "draws")})
		}
		machines := make([]payer.Machine, rapid.IntRange(0, 6).Draw(t, "machines"))
		for i := range machines {
			machines[i].Pool = rapid.SampledFrom(pools).Draw(t, "pool")
		}
		got, used, paid := payer.Assign(machines, all), make([]int32, len(all)), 0
		for _, of := range got {
			if of >= 0 {
				used[of]++
				paid++
			}
		}
		for i := range all {
			if used[i] > all[i].Instances || used[i] > 0 && !all[i].Paid {
				t.Fatalf("%v gives %d of %+v", got, used[i], all[i])
			}
		}
		if want := most(machines, all, make([]int32, len(all))); paid != want {
			t.Fatalf("%v pays for %d, and %d can be paid for", got, paid, want)
		}
	})
}

// most is how many machines can be paid for, by trying everything.
func most(machines []payer.Machine, all []payer.Reservation, used []int32) int {
	if len(machines) == 0 {
		return 0
	}
	best := most(machines[1:], all, used)
	for i := range all {
		for _, name := range machines[0].Pool.Draws {
			if name == all[i].Name && all[i].Paid && used[i] < all[i].Instances {
				used[i]++
				best = max(best, 1+most(machines[1:], all, used))
				used[i]--
			}
		}
	}
	return best
}
