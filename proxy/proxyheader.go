package proxy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// The PROXY protocol: in front of everything else a connection says for whom it is made.
// (https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt)

const (
	proxySignature = "\r\n\r\n\x00\r\nQUIT\n"
	proxyLine      = "PROXY "
	maxProxyLine   = 107     // bytes of a header of version 1
	maxProxyBlock  = 4 << 10 // bytes of a header of version 2 behind its fixed part
)

// sender is who a header names. Neither field is set if it names nobody: then the connection is the sender's own.
type sender struct {
	address netip.AddrPort
	unix    bool // it is a unix socket's client
}

var errNoProxyHeader = errors.New("no PROXY protocol header")

// readProxyHeader reads a header and nothing behind it.
func readProxyHeader(r io.Reader) (sender, error) {
	b := make([]byte, len(proxySignature), maxProxyLine)
	if _, err := io.ReadFull(r, b); err != nil {
		return sender{}, fmt.Errorf("read PROXY header: %w", err)
	}
	switch {
	case string(b) == proxySignature:
		b = b[:16]
		if _, err := io.ReadFull(r, b[len(proxySignature):]); err != nil {
			return sender{}, fmt.Errorf("read PROXY header: %w", err)
		}
		length := int(binary.BigEndian.Uint16(b[14:]))
		if length > maxProxyBlock {
			return sender{}, fmt.Errorf("read PROXY header: %d bytes are too many", length)
		}
		block := make([]byte, length)
		if _, err := io.ReadFull(r, block); err != nil {
			return sender{}, fmt.Errorf("read PROXY header: %w", err)
		}
		return parseProxyBlock(b[12], b[13], block)
	case bytes.HasPrefix(b, []byte(proxyLine)):
		for b[len(b)-1] != '\n' {
			if len(b) == maxProxyLine {
				return sender{}, errors.New("read PROXY header: its line does not end")
			}
			b = b[:len(b)+1]
			if _, err := io.ReadFull(r, b[len(b)-1:]); err != nil {
				return sender{}, fmt.Errorf("read PROXY header: %w", err)
			}
		}
		return parseProxyLine(string(b))
	}
	return sender{}, errNoProxyHeader
}

// parseProxyLine takes a header of version 1 apart, its line end included.
func parseProxyLine(line string) (sender, error) {
	fault := errors.New("parse PROXY header: it is not of version 1")
	text, ok := strings.CutSuffix(line, "\r\n")
	if !ok {
		return sender{}, fault
	}
	words := strings.Split(text, " ")
	if len(words) > 1 && words[1] == "UNKNOWN" {
		return sender{}, nil
	}
	if len(words) != 6 || words[1] != "TCP4" && words[1] != "TCP6" {
		return sender{}, fault
	}
	var ends [2]netip.AddrPort
	for i := range ends {
		a, err := netip.ParseAddr(words[2+i])
		port, portErr := strconv.ParseUint(words[4+i], 10, 16)
		if err != nil || portErr != nil || a.Zone() != "" || a.Is4() != (words[1] == "TCP4") {
			return sender{}, fault
		}
		ends[i] = netip.AddrPortFrom(a.Unmap(), uint16(port))
	}
	return sender{address: ends[0]}, nil
}

// Commands and families of version 2.
const (
	proxyLocal   = 0x20
	proxyOther   = 0x21
	proxyUnknown = 0x00
	proxyTCP4    = 0x11
	proxyTCP6    = 0x21
	proxyUnix    = 0x31
)

// parseProxyBlock takes a header of version 2 apart. What is behind the addresses is of no interest.
func parseProxyBlock(command, family byte, block []byte) (sender, error) {
	switch command {
	case proxyLocal:
		return sender{}, nil
	case proxyOther:
	default:
		return sender{}, fmt.Errorf("parse PROXY header: unknown command %#x", command)
	}
	switch {
	case family == proxyUnknown:
		return sender{}, nil
	case family == proxyTCP4 && len(block) >= 12:
		return sender{address: netip.AddrPortFrom(netip.AddrFrom4([4]byte(block)), binary.BigEndian.Uint16(block[8:]))}, nil
	case family == proxyTCP6 && len(block) >= 36:
		return sender{address: netip.AddrPortFrom(netip.AddrFrom16([16]byte(block)).Unmap(), binary.BigEndian.Uint16(block[32:]))}, nil
	case family == proxyUnix && len(block) >= 216:
		return sender{unix: true}, nil
	}
	return sender{}, fmt.Errorf("parse PROXY header: family %#x with %d bytes", family, len(block))
}

// appendProxyHeader appends a header of version 2 for a client. Without an address it is one of a unix socket's.
func appendProxyHeader(b []byte, client, listener netip.AddrPort) []byte {
	b = append(append(b, proxySignature...), proxyOther)
	if !client.IsValid() {
		return append(append(b, proxyUnix, 0, 216), make([]byte, 216)...)
	}
	from, to := client.Addr().Unmap(), listener.Addr().Unmap()
	if from.Is4() && to.Is4() {
		b = append(b, proxyTCP4, 0, 12)
		b = append(append(b, from.AsSlice()...), to.AsSlice()...)
	} else {
		if !to.IsValid() {
			to = netip.IPv6Unspecified()
		}
		source, target := from.As16(), to.As16()
		b = append(b, proxyTCP6, 0, 36)
		b = append(append(b, source[:]...), target[:]...)
	}
	b = binary.BigEndian.AppendUint16(b, client.Port())
	return binary.BigEndian.AppendUint16(b, listener.Port())
}

// appendProxyLocal appends a header for a connection of our own.
func appendProxyLocal(b []byte) []byte {
	return append(append(b, proxySignature...), proxyLocal, proxyUnknown, 0, 0)
}

// tcpAddress is a TCP connection's address; the zero value of any other.
func tcpAddress(a net.Addr) netip.AddrPort {
	if tcp, ok := a.(*net.TCPAddr); ok {
		p := tcp.AddrPort()
		return netip.AddrPortFrom(p.Addr().Unmap(), p.Port())
	}
	return netip.AddrPort{}
}
