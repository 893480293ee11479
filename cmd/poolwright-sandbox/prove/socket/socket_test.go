package socket

import (
	"net"
	"os"
	"os/exec"
	"runtime"
	"testing"
)

// A connection within this process: both ends are its own.
func TestTheProcessAtTheOtherEndIsFound(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("there is no /proc")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	client, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	opened := Of(server.RemoteAddr())
	if opened == "" || opened != Of(client.LocalAddr()) || opened == Of(server.LocalAddr()) {
		t.Fatalf("the client's end is %q, the server's %q", opened, Of(server.LocalAddr()))
	}
	if !opened.OpenedBy(os.Getpid()) {
		t.Error("the test does not have its own socket open")
	}
	// Another process that runs until its input ends has none of ours.
	other := exec.Command("cat")
	input, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Skip("there is no cat: ", err)
	}
	if opened.OpenedBy(other.Process.Pid) {
		t.Error("another process has the socket")
	}
	_ = input.Close()
	_ = other.Wait()
	if opened.OpenedBy(other.Process.Pid) {
		t.Error("a process that has ended has the socket")
	}
	_, _ = client.Close(), server.Close()
}

func TestWhatIsNoConnectionIsOfNoProcess(t *testing.T) {
	for name, address := range map[string]net.Addr{
		"an address that nothing has":   &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1},
		"an address of another network": &net.UnixAddr{Name: "x", Net: "unix"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Of(address); got != "" || got.OpenedBy(os.Getpid()) {
				t.Errorf("it is %q", got)
			}
		})
	}
}
