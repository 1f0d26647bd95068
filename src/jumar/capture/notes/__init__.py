"""What the observer notes of calls, operators, memory and random numbers while the run goes on."""
