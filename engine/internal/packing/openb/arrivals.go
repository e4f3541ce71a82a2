package openb

import "math/rand"

// Arrivals is the order in which pods arrive, as indices into the workload, and the order in which equal nodes are preferred.
type Arrivals struct {
	Pods []int
	Rank []int // by node: the smaller wins among equals
}

// Inflate makes the arrival list of a seed: the workload in random order, then pods drawn from it until they ask for 1.3 times
// the GPUs. It draws as the FGD simulator draws, number by number, so that lists have the published checksums: pods are sorted
// by name; a workload that asks for more loses random pods instead and gets none; one number is drawn and thrown away, and the bound is tested with one card's share of a pod rather than all of it.
func Inflate(pods []Pod, nodes []Node, seed int64) Arrivals {
	var capacity, total int64
	for i := range nodes {
		capacity += int64(nodes[i].GPUs) * 1000
	}
	limit := capacity * 13 / 10
	r := rand.New(rand.NewSource(seed))
	r.Int()
	list := make([]int, len(pods))
	for i := range list {
		list[i] = i
		total += pods[i].total()
	}
	r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	above := total > limit
	for total > limit {
		i := r.Intn(len(list))
		total -= pods[list[i]].total()
		list = append(list[:i], list[i+1:]...)
	}
	for !above {
		i := r.Intn(len(pods))
		if total+int64(pods[i].Milli) > limit {
			break
		}
		list = append(list, i)
		total += pods[i].total()
	}
	return Arrivals{Pods: list, Rank: r.Perm(len(nodes))}
}

// Until are the arrivals up to those that ask for so many percent of all GPUs.
func (a Arrivals) Until(w *Workload, percent int64) Arrivals {
	var capacity, arrived int64
	for i := range w.Nodes {
		capacity += int64(w.Nodes[i].GPUs) * 1000
	}
	n := 0
	for n < len(a.Pods) && arrived*100 < capacity*percent {
		arrived += w.Pods[a.Pods[n]].total()
		n++
	}
	return Arrivals{Pods: a.Pods[:n], Rank: a.Rank}
}
