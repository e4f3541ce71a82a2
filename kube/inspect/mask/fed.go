package mask

import (
	"regexp"
	"strings"
	"sync"
)

// What people give to programs that take a password is a value whose name says nothing, wherever in the line it stands: the
// same programs take it as an argument, on their input, or after a flag of their own. Of such a line no word leaves that a
// Strict Masker would keep back.
var programs = sync.OnceValue(func() *ruleSet {
	s := &ruleSet{byStart: make(map[[3]byte][]keyword)}
	for _, p := range []struct{ regex, keywords string }{
		// What comes after what says that somebody logs in, or after a program that takes little else than passwords. A line
		// goes on after a backslash.
		{`\b(?:[Ll]og(?:ged)?[ -]?(?:in|on)|[Aa]uthenticat(?:e|ed|ing) (?:as|with)|AUTH|net\s+user?|mc\s+(?:alias|config)|mkpasswd|htpasswd|chpasswd|wpa_passphrase|kinit|runas|cmdkey|cryptsetup|ssh-keygen)\b((?:\\\n|[^\n])*)`,
			`login|logon|log in|log on|log-in|logged in|logged on|auth|authenticat|net us|mc alias|mc config|mkpasswd|htpasswd|chpasswd|wpa_passphrase|kinit|runas|cmdkey|cryptsetup|ssh-keygen`},
		// What comes after a program that takes passwords among other things, with a flag, which tells a command from a
		// message.
		{`\b(?:mysql\w*|mariadb\w*|mongo\w*|sshpass|redis-cli|ldap\w+|curl|wget|psql|isql|sqlcmd|sqlplus|cqlsh|influx|smbclient|lftp|keytool|snmp\w+|ipmitool|racadm|rabbitmq\w+|clickhouse\S*|plink|pscp|nmcli|iscsiadm|openssl|gpg|age|wandb|ngc|s3cmd|rclone)\b(["']?(?:[\s,](?:\\\n|[^\n])*?)?[\s"',](?:--?|/)[A-Za-z](?:\\\n|[^\n])*)`,
			`mysql|mariadb|mongo|sshpass|redis-cli|ldap|curl|wget|psql|isql|sqlcmd|sqlplus|cqlsh|influx|smbclient|lftp|keytool|snmp|ipmitool|racadm|rabbitmq|clickhouse|plink|pscp|nmcli|iscsiadm|openssl|gpg|age -|wandb|ngc|s3cmd|rclone`},
		// What a program reads from a pipe, a file, a here-string or a line of expect.
		{`\b(?:echo|printf)(\s[^\n|>]*)[|>]`, `echo|printf`},
		{`<<<([^\n]*)`, `<<<`},
		{`<\(\s*(?:echo|printf)([^)\n]*)`, `echo|printf`},
		{`\bsend\s+(?:--\s+)?(["'][^"'\n]*)`, `send "|send '|send --`},
		// Values of a statement that writes into a table, or makes a user of a database.
		{`(?i)\binsert\s+into\b[^\n]*?\bvalues\s*(\([^\n]*)`, `insert`},
		{`(?i)\bidentified\s+(?:with\s+\S+\s+)?by\s+(\S[^\n]*)`, `identified`},
		// What the API server quotes of a container's environment or command line when it refuses an object.
		{`\b(?:env|args|command)\[[^\s:]*:\s*(?:Invalid|Unsupported|Duplicate)\s+value:\s*("(?:\\.|[^"\\\n])*"|\S+)`, `invalid value|unsupported value|duplicate value`},
		// What somebody tried, in a line that speaks of logging in.
		{`(?i)\b(?:passwords?|passphrase|credentials?|auth\w*|log ?in|token|key)\b[^\n]{0,160}?\b(?:tried|using|used|got|sent|supplied|provided|entered|typed)\s+(["'][^"'\n]*["'])`, `tried "|tried '|using "|using '|used "|used '|got "|got '|sent "|sent '|supplied|provided|entered|typed`},
		// Users that every machine and every database has are followed by their password.
		{`(?i)\b(?:admin|administrator|root|sa|postgres|minioadmin|superuser):([^\s:/,;]+)`, `admin:|administrator:|root:|sa:|postgres:|superuser:`},
	} {
		s.add(&rule{text: p.regex}, strings.Split(p.keywords, "|")...)
	}
	return s
})

// inputs masks all words that are not known of what is given to programs.
func (m *Masker) inputs(s string) string {
	for _, r := range programs().hit(s) {
		s = m.severeGroup(r.regexp(), s)
	}
	return m.groups(m.here(s))
}

// heres begins a here-document.
var heres = regexp.MustCompile(`<<-?\s*["']?([A-Za-z_]\w*)["']?[^\n]*\n`)

// here masks the words that are not known of what a shell gives to a program line by line.
func (m *Masker) here(s string) string {
	if !strings.Contains(s, "<<") {
		return s
	}
	var b strings.Builder
	done := 0
	for _, at := range heres.FindAllStringSubmatchIndex(s, -1) {
		if at[1] < done {
			continue
		}
		end := len(s)
		if i := strings.Index(s[at[1]-1:], "\n"+s[at[2]:at[3]]); i >= 0 {
			end = at[1] - 1 + i
		}
		if end < at[1] {
			continue
		}
		b.WriteString(s[done:at[1]])
		b.WriteString(m.severe(s[at[1]:end]))
		done = end
	}
	return b.String() + s[done:]
}

// severeGroup masks the words that are not known in the first group of each match.
func (m *Masker) severeGroup(re *regexp.Regexp, s string) string {
	var b strings.Builder
	done := 0
	for _, at := range re.FindAllStringSubmatchIndex(s, -1) {
		b.WriteString(s[done:at[2]])
		b.WriteString(m.severe(s[at[2]:at[3]]))
		done = at[3]
	}
	if done == 0 {
		return s
	}
	return b.String() + s[done:]
}

// codes are words of four to six letters each, in a row.
var codes = regexp.MustCompile(`\b[A-Za-z0-9]{4,6}(?:[ -][A-Za-z0-9]{4,6}){3,}\b`)

// groups masks what was parted into groups for people to type: four or more words of one length of which none is known,
// or six groups of six digits.
func (m *Masker) groups(s string) string {
	if strings.Count(s, " ")+strings.Count(s, "-") < 3 {
		return s
	}
	var b strings.Builder
	done := 0
	for _, at := range codes.FindAllStringIndex(s, -1) {
		for from := at[0]; from < at[1]; {
			end, next := m.group(s, from, at[1])
			if end > from {
				b.WriteString(s[done:from])
				b.WriteString(Mask)
				done = end
			}
			from = next
		}
	}
	if done == 0 {
		return s
	}
	return b.String() + s[done:]
}

// group is where the groups that begin at the place end, if they are a secret; next is where others may begin.
func (m *Masker) group(s string, from, to int) (end, next int) {
	width, n, digits := 0, 0, true
	for at := from; at < to; n++ {
		stop := min(to, at+upTo(s[at:min(to, at+8)], 0, " -"))
		w := s[at:stop]
		if n == 0 {
			width, next = len(w), stop+1
		}
		if len(w) != width || m.nameAt(s, at) > 0 || m.run(w) == known {
			break
		}
		digits = digits && strings.Trim(w, "0123456789") == ""
		end, at = stop, stop+1
	}
	if n >= 4 && !digits || n >= 6 && width == 6 && s[from+width] == '-' {
		return end, end + 1
	}
	return from, next
}
