package podspec

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// leastMemory is what a container's first process needs at the least: runtimes refuse less, or are killed by the kernel in its place.
const leastMemory = 6 << 20

// MemoryMeant reads a limit on memory in which nothing can run as its author meant it: with a unit in place of m, of k, or of none. False for
// a limit that a program could run in, or that no unit explains.
func MemoryMeant(limit resource.Quantity) (resource.Quantity, bool) {
	if limit.IsZero() || limit.CmpInt64(leastMemory) >= 0 {
		return resource.Quantity{}, false
	}
	text := limit.String()
	digits := strings.TrimRight(text, "mkKi")
	unit, ok := map[string]string{"m": "Mi", "": "Mi", "k": "M", "Ki": "Mi"}[text[len(digits):]]
	if !ok {
		return resource.Quantity{}, false
	}
	meant, err := resource.ParseQuantity(digits + unit)
	if err != nil {
		return resource.Quantity{}, false
	}
	if unit == "Mi" && meant.CmpInt64(64<<20) < 0 { // "16" of memory are hardly ever 16 Mi
		meant = resource.MustParse(digits + "Gi")
	}
	return meant, meant.CmpInt64(leastMemory) >= 0
}
