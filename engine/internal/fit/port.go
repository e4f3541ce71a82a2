package fit

import (
	"fmt"
	"strings"
)

// anyIP is every address of the node. The IPv6 wildcard is, as in Kubernetes, an address like any other.
const anyIP = "0.0.0.0"

// Conflicts tells whether two pods cannot have these ports on one node. A port below one is none.
func (p Port) Conflicts(q Port) bool {
	if p.Port <= 0 || p.Port != q.Port || p.protocol() != q.protocol() {
		return false
	}
	a, b := p.ip(), q.ip()
	return a == b || a == anyIP || b == anyIP
}

func (p Port) ip() string {
	if p.IP == "" {
		return anyIP
	}
	return p.IP
}

func (p Port) protocol() string {
	if p.Protocol == "" {
		return "TCP"
	}
	return p.Protocol
}

// String is the port with its defaults spelled out, such as 0.0.0.0:8080/TCP.
func (p Port) String() string {
	if p.Protocol == Exclusive {
		return p.IP
	}
	ip := p.ip()
	if strings.Contains(ip, ":") {
		ip = "[" + ip + "]"
	}
	return fmt.Sprintf("%s:%d/%s", ip, p.Port, p.protocol())
}

// Check says what is wrong with the port, naming it. The address may be any text, as in Kubernetes.
func (p Port) Check() error {
	if p.Port < 1 || p.Port > 65535 {
		return fmt.Errorf("host port %s: not within 1 to 65535", p)
	}
	switch p.protocol() {
	case "TCP", "UDP", "SCTP", Exclusive:
		return nil
	}
	return fmt.Errorf("host port %s: unknown protocol", p)
}
