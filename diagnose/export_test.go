package diagnose

import "github.com/berth-dev/berth/engine/why"

// Without takes a check away, as deleting its file would, until back is called.
func Without(cause why.Cause) (back func()) {
	was := registry[cause]
	delete(registry, cause)
	return func() { registry[cause] = was }
}
