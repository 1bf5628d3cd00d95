"""Operations on the monitoring of a running stack."""
