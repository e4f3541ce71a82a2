package share

import "fmt"

// Thousand is a tree of depth 3 with 1,000 nodes: 10 at the top, 9 below each, and 10 below each of those.
func Thousand() ([]Node, []int64) {
	total := []int64{40_000, 960_000_000, 10 << 50}
	var nodes []Node
	add := func(parent int, part int64) int {
		k := int64(len(nodes))
		n := Node{
			Name: fmt.Sprintf("queue-%04d", k), Parent: parent, Priority: int32(k % 3), Weight: 1 + k%7, Used: k * 7919 % 100_000,
			Quota:   []int64{total[0] / part * (k % 3) / 4, 0, 0},
			Request: []int64{total[0] / part * (k % 5), total[1] / part * (k % 7) / 4, total[2] / part * (k % 4) / 3},
		}
		if k%4 == 0 {
			n.Limit = []int64{total[0] / part * 2, -1, -1}
		}
		nodes = append(nodes, n)
		return int(k)
	}
	for range 10 {
		team := add(-1, 10)
		for range 9 {
			group := add(team, 100)
			for range 10 {
				add(group, 1000)
			}
		}
	}
	return nodes, total
}
