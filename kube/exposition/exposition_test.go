package exposition

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/diagnose/doctor"
)

func all(string) bool { return true }

func TestRead(t *testing.T) {
	// Two exporters' texts in one file, as cat makes it: HELP and TYPE come twice.
	const text = `# HELP DCGM_FI_DEV_XID_ERRORS Value of the last XID error encountered.
# TYPE DCGM_FI_DEV_XID_ERRORS gauge
DCGM_FI_DEV_XID_ERRORS{gpu="0",Hostname="a"} 0
# HELP DCGM_FI_DEV_XID_ERRORS Value of the last XID error encountered.
# TYPE DCGM_FI_DEV_XID_ERRORS gauge
DCGM_FI_DEV_XID_ERRORS{gpu="1",Hostname="b"} 79 1763294400000
other 1

`
	got, err := Read(strings.NewReader(text), func(name string) bool { return name != "other" })
	want := []doctor.Sample{
		{Name: "DCGM_FI_DEV_XID_ERRORS", Labels: map[string]string{"gpu": "0", "Hostname": "a"}},
		{Name: "DCGM_FI_DEV_XID_ERRORS", Labels: map[string]string{"gpu": "1", "Hostname": "b"}, Value: 79},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestReadRefuses(t *testing.T) {
	for what, text := range map[string]string{
		"a page":       "<html><body>502 Bad Gateway</body></html>",
		"a long line":  "a{b=\"" + strings.Repeat("x", 2*maxLine) + "\"} 1\n",
		"half a line":  "DCGM_FI_DEV_XID_ERRORS{gpu=\"0\"",
		"no UTF-8":     "a{b=\"\xff\"} 1\n",
		"twice a name": "a{b=\"1\",b=\"2\"} 1\n",
	} {
		if got, err := Read(strings.NewReader(text), all); err == nil {
			t.Errorf("%s: read %v", what, got)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add("a{b=\"c\"} 1\n")
	f.Add("# TYPE a histogram\na_bucket{le=\"+Inf\"} NaN\n")
	f.Fuzz(func(t *testing.T, text string) {
		samples, err := Read(strings.NewReader(text), all)
		if err == nil && len(samples) > strings.Count(text, "\n")+strings.Count(text, "\r")+1 {
			t.Errorf("%q: %d samples", text, len(samples))
		}
	})
}
