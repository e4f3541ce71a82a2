package volcano

import (
	"flag"
	"testing"

	"github.com/berth-dev/berth/kube/dialect/dialecttest"
)

var update = flag.Bool("update", false, "write the table of the page anew")

// The table of the page is made of Fields.
func TestPage(t *testing.T) { dialecttest.Page(t, New(), "../../../docs/from-volcano.md", *update) }
