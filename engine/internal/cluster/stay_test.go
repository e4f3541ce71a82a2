package cluster

import (
	"testing"
	"time"
)

func TestStayCovers(t *testing.T) {
	const hour, longest = time.Hour, 1 << 62
	for _, tc := range []struct {
		name    string
		s, than Stay
		want    bool
	}{
		{"as long", Stay{For: hour}, Stay{For: hour}, true},
		{"longer", Stay{For: 2 * hour}, Stay{For: hour}, true},
		{"shorter", Stay{For: hour}, Stay{For: 2 * hour}, false},
		{"may be over before nodes leave", Stay{For: longest, Open: true}, Stay{For: hour}, false},
		{"saves, where the other does not", Stay{For: hour, Saves: 1}, Stay{For: hour}, false},
		{"does not save, where the other does", Stay{For: hour}, Stay{For: hour, Saves: 1}, true},
		{"saves less often", Stay{For: hour, Saves: 2}, Stay{For: hour, Saves: 1}, true},
		{"saves more often", Stay{For: hour, Saves: 1}, Stay{For: hour, Saves: 2}, false},
	} {
		if got := tc.s.Covers(tc.than); got != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}
