package mask

import (
	"regexp"
	"strings"
)

var (
	// block is a key or a message in armour, on lines of its own, on one line, or with line ends written as \n. One
	// whose end is missing goes to the end of the text; one whose beginning is missing is masked word by word.
	block = regexp.MustCompile(`(?s)-----\s*BEGIN [^\n]{1,80}?-----.*?(?:-----\s*END [^\n]{1,80}?-----|$)|(?s)PuTTY-User-Key-File.*|(?s)---- BEGIN SSH2.*?(?:---- END SSH2[^\n]*|$)`)
	// userinfo is all before the last @ of what follows ://, whatever is in it.
	userinfo = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*:(?:\\?/){2})[^\s"'<>` + "`" + `]+@`)
	// login is user:password@host without a scheme.
	login = regexp.MustCompile(`(^|[\s"'=(,])([A-Za-z0-9._%+-]+):([^\s"'<>@/][^\s"'<>]*)@([A-Za-z0-9-])`)
	// query is what follows the path of a URL.
	query      = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://[^\s"'<>?#]+[?#])([^\s"'<>]+)`)
	plainQuery = regexp.MustCompile(`^(?:(?:timeout|timeoutSeconds|limit|watch|allowWatchBookmarks|resourceVersion)=[0-9a-z]{0,12}(?:&|$))+$`)
	// pathQuery is a query after a path alone, as the logs of servers have it.
	pathQuery = regexp.MustCompile(`((?:^|[\s"'=(])/[^\s"'<>?#]*\?)([^\s"'<>=&?]+=[^\s"'<>]+)`)
	// secretFlag is a flag by which many programs take a password; what is a port or a path after it is none.
	secretFlag  = regexp.MustCompile(`((?:^|\s)-p\s+)("[^"]*"|'[^']*'|\S+)`)
	portOrPath  = regexp.MustCompile(`^["']?(?:\d{1,5}(?:[:/,-]\d{1,5})*(?:/(?:tcp|udp))?["';,]?$|[/.~$])`)
	literalFlag = regexp.MustCompile(`(--from-literal[= ]["']?[^\s=]+=)("[^"]*"|'[^']*'|[^\s"']+)`)
	// loggedIn is user:password or user / password in a sentence, after what says that it is one.
	loggedIn = regexp.MustCompile(`(?i)\b((?:log[io]n|logged in|credentials?|creds|pair|connect(?:ed|ing)?)(?:\s+(?:as|with|for|using|are|is|were))?(?:\s+user)?[\s=:]+[A-Za-z0-9._-]+(?::| / )|pair:? [A-Za-z0-9._-]+/)([^\s"',;/]{3,})`)
	// pair is u: bob p: X, where p alone says nothing.
	pair = regexp.MustCompile(`(\b(?:u|usr|user|username|login|account)\s*[:=]\s*\S+[\s,;]+(?:p|pw)\s*[:=]\s*)(\S+)`)
	// oracle is user/password@service.
	oracle = regexp.MustCompile(`((?:^|[\s"'=(:])[A-Za-z0-9_.-]+/)([^\s"'<>@/]+)(@(?:/{2})?[A-Za-z0-9][A-Za-z0-9_.-]*)`)
	// pgpass is a line of libpq's password file.
	pgpass = regexp.MustCompile(`(?m)^(\s*[^\s:]+:(?:\d{2,5}|\*):[^\s:]+:[^\s:]+:)\S+`)
	// shortFlag is a flag by which programs take a password, with the programs that do; fed.go has more of them.
	shortFlag = regexp.MustCompile(`\b(mysql\w*|mariadb\w*|mongo\w*|sshpass|redis-cli|redis-server|ldap\w+|curl|wget|http|https|psql|pg_dump|sqlcmd|mssql-cli|bcp|sqlplus|cqlsh|influx|smbclient|rsync|lftp|ftp|svn|docker|podman|skopeo|crane|helm|az|htpasswd|openssl|gpg|zip|unzip|7z|rar|kinit|wimlib|net|cmdkey|snmp\w+|ipmitool|rabbitmq\w+|kafka\S*|neo4j\S*|clickhouse\S*|vault|keytool|unrar|sudo|su|expect|plink|putty|pscp)\b([^\n|]*)`)
	shortArg  = regexp.MustCompile(`(^|\s)(-[A-Za-z])(\s*=?\s*)("[^"]*"|'[^']*'|\S+)`)
)

// looks masks what is a credential by its place in a URL, a header, a file of passwords or a command line.
func looks(s string) string {
	if strings.Contains(s, "BEGIN") || strings.Contains(s, "PuTTY") {
		s = block.ReplaceAllString(s, Mask)
	}
	s = rules().apply(s)
	if strings.IndexByte(s, '@') >= 0 {
		s = userinfo.ReplaceAllString(s, "${1}"+Mask+"@")
		s = login.ReplaceAllStringFunc(s, func(m string) string {
			at := login.FindStringSubmatch(m)
			if digest.MatchString(m) {
				return m
			}
			return at[1] + Mask + "@" + at[4]
		})
		s = oracle.ReplaceAllStringFunc(s, func(m string) string {
			at := oracle.FindStringSubmatch(m)
			if strings.HasPrefix(at[3], "@sha") || strings.HasPrefix(at[2], Mask) { // a digest of an image
				return m
			}
			return at[1] + Mask + at[3]
		})
	}
	if strings.Contains(s, "://") {
		s = query.ReplaceAllStringFunc(s, func(u string) string {
			at := query.FindStringSubmatch(u)
			if plainQuery.MatchString(at[2]) {
				return u
			}
			return at[1] + Mask
		})
	}
	if strings.IndexByte(s, ':') >= 0 {
		s = pgpass.ReplaceAllString(s, "${1}"+Mask)
	}
	if strings.IndexByte(s, '?') >= 0 {
		s = pathQuery.ReplaceAllStringFunc(s, func(u string) string {
			at := pathQuery.FindStringSubmatch(u)
			if plainQuery.MatchString(at[2]) {
				return u
			}
			return at[1] + Mask
		})
	}
	if strings.IndexByte(s, ':') >= 0 || strings.IndexByte(s, '/') >= 0 {
		s = pair.ReplaceAllString(s, "${1}"+Mask)
		s = loggedIn.ReplaceAllString(s, "${1}"+Mask)
	}
	if strings.IndexByte(s, '-') >= 0 {
		s = literalFlag.ReplaceAllString(s, "${1}"+Mask)
		s = secretFlag.ReplaceAllStringFunc(s, func(f string) string {
			at := secretFlag.FindStringSubmatch(f)
			if portOrPath.MatchString(at[2]) {
				return f
			}
			return at[1] + Mask
		})
		s = shortFlag.ReplaceAllStringFunc(s, func(m string) string {
			return shortArg.ReplaceAllStringFunc(m, func(a string) string {
				at := shortArg.FindStringSubmatch(a)
				if number.MatchString(at[4]) && len(at[4]) < 6 && at[2] != "-p" || at[4] == Mask {
					return a
				}
				return at[1] + at[2] + at[3] + Mask
			})
		})
	}
	return s
}

var (
	digest = regexp.MustCompile(`@sha256:[0-9a-f]{64}|:[A-Za-z0-9._-]+@sha256`)
	number = regexp.MustCompile(`^[0-9]+(?:\.[0-9]+)?$`)
)
