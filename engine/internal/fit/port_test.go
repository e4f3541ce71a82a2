package fit

import (
	"testing"

	"pgregory.net/rapid"
)

func TestPortConflicts(t *testing.T) {
	for _, c := range []struct {
		p, q Port
		want bool
	}{
		{Port{"", "", 80}, Port{"0.0.0.0", "TCP", 80}, true},
		{Port{"", "", 80}, Port{"10.0.0.1", "TCP", 80}, true},
		{Port{"10.0.0.1", "", 80}, Port{"10.0.0.1", "", 80}, true},
		{Port{"10.0.0.1", "", 80}, Port{"10.0.0.2", "", 80}, false},
		{Port{"::", "", 80}, Port{"10.0.0.2", "", 80}, false},
		{Port{"::", "", 80}, Port{"", "", 80}, true},
		{Port{"", "UDP", 80}, Port{"", "TCP", 80}, false},
		{Port{"", "", 80}, Port{"", "", 81}, false},
		{Port{"", "", 0}, Port{"", "", 0}, false},
	} {
		if got := c.p.Conflicts(c.q); got != c.want {
			t.Errorf("%v and %v: got %v, want %v", c.p, c.q, got, c.want)
		}
	}
}

func TestPortConflictsBothWays(t *testing.T) {
	port := rapid.Custom(func(t *rapid.T) Port {
		return Port{
			IP:       rapid.SampledFrom([]string{"", "0.0.0.0", "10.0.0.1", "10.0.0.2", "::"}).Draw(t, "ip"),
			Protocol: rapid.SampledFrom([]string{"", "TCP", "UDP"}).Draw(t, "protocol"),
			Port:     rapid.Int32Range(-1, 2).Draw(t, "port"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		p, q := port.Draw(t, "p"), port.Draw(t, "q")
		if p.Conflicts(q) != q.Conflicts(p) {
			t.Fatalf("%v and %v disagree", p, q)
		}
		if p.Conflicts(p) != (p.Port > 0) {
			t.Fatalf("%v and itself", p)
		}
	})
}

func TestPortString(t *testing.T) {
	for want, p := range map[string]Port{
		"0.0.0.0:80/TCP": {Port: 80},
		"[::1]:53/UDP":   {"::1", "UDP", 53},
	} {
		if got := p.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestPortCheck(t *testing.T) {
	for _, c := range []struct {
		port Port
		want string
	}{
		{Port{Port: 80}, ""},
		{Port{"node", "SCTP", 65535}, ""},
		{Port{Port: 0}, "host port 0.0.0.0:0/TCP: not within 1 to 65535"},
		{Port{Port: 65536}, "host port 0.0.0.0:65536/TCP: not within 1 to 65535"},
		{Port{"", "tcp", 80}, "host port 0.0.0.0:80/tcp: unknown protocol"},
	} {
		if got := message(c.port.Check()); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}
